"""The traffic classes of a flow: that of its data, and that of what answers it.

Parameters of a transport that uses it: `DATA_CLASS`, or what `data_param` gives, and what
`ack_param` gives; state at the receiver: `RX_STATE`.
"""

from netsim.params import Param
from netsim.transport import or_default


def data_param(default):
    """The parameter for the class of data, where that is not 0."""
    return Param("data_class", "count", default, "traffic class of data", maximum=7)


DATA_CLASS = data_param(0)

RX_STATE = ("ack_class",)
"""The class in which the receiver sends."""


def ack_param(answers):
    """The parameter for the class of ``answers``, as its description names them."""
    doc = f"class of {answers}; none is the data's class"
    return Param("ack_class", "count", None, doc, maximum=7)


def setup(env, tx, rx):
    """To be called by the transport's `setup`."""
    tx.prio = env.par.data_class
    rx.ack_class = or_default(env.par.ack_class, env.par.data_class)
