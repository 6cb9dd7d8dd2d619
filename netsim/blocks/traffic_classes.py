"""The traffic classes of a flow's data and of its replies.

A transport that uses it adds `DATA_CLASS` (or a `data_param`), an `ack_param` and `RX_STATE`.
"""

from netsim.params import Param
from netsim.transport import or_default


def data_param(default):
    """Return the parameter for the class of data, if the default is not 0."""
    return Param("data_class", "count", default, "traffic class of data", maximum=7)


DATA_CLASS = data_param(0)

RX_STATE = ("ack_class",)  # class of what the receiver sends


def ack_param(answers):
    """Return the parameter for the class of ``answers``, the noun in its description."""
    doc = f"class of {answers}; none is the data's class"
    return Param("ack_class", "count", None, doc, maximum=7)


def setup(env, tx, rx):
    """Set both classes; call it from the transport's `setup`."""
    tx.prio = env.par.data_class
    rx.ack_class = or_default(env.par.ack_class, env.par.data_class)
