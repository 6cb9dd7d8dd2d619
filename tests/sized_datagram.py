"""The transport `datagram` with remaining flow sizes in packets, which pFabric switches need."""

from netsim.transports import datagram

PARAMS = datagram.PARAMS
RELIABLE = datagram.RELIABLE
TX_STATE = datagram.TX_STATE
PACKET_FIELDS = ("remaining",)

setup = datagram.setup
ready = datagram.ready
on_data = datagram.on_data


def build_packet(env, now, tx, pkt):
    pkt.remaining = tx.n_packets - tx.next_seq
    datagram.build_packet(env, now, tx, pkt)
