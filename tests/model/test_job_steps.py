"""Job steps of several workloads joined into one."""

import numpy as np

from netsim.workloads.operations.table import JobSteps


def test_joined_workloads_without_steps_are_step_zero() -> None:
    one = JobSteps(np.array([0, 1, 2], np.int32), 5e12, 1e15)
    other = JobSteps(np.array([1, 0], np.int32), 2e12, 3e15)
    both = JobSteps.join([(one, 3), (None, 2), (other, 2)])
    assert both is not None
    assert both.step.tolist() == [0, 1, 2, 0, 0, 1, 0]
    assert both.n == 3
    assert JobSteps.join([(None, 3), (None, 2)]) is None
