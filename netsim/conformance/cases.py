"""All cases of the suite, in the order in which they are run."""

from __future__ import annotations

from netsim.conformance import delivery, figures, links, repeat, trouble
from netsim.conformance.finding import COMPILED, RELIABLE, Case

CASES = (
    Case("sizes", "1 byte, 1 packet, odd sizes", delivery.sizes),
    Case("permutation", "every host sends to another", delivery.permutation),
    Case("incast", "seven hosts send to one", delivery.incast),
    Case("all-to-all", "everybody sends to everybody", delivery.all_to_all),
    Case("many flows", "thirty flows of one host", delivery.many_flows_of_a_host),
    Case("dependencies", "flows that wait for others", delivery.dependencies),
    Case("beside another", "a second transport", delivery.beside_another),
    Case("full queues", "switches drop", trouble.full_queues, (RELIABLE,)),
    Case("random loss", "links lose packets", links.random_loss, (RELIABLE,)),
    Case("bit errors", "links corrupt packets", links.bit_errors, (RELIABLE,)),
    Case("link down", "links fail and come back", links.link_down, (RELIABLE,)),
    Case("reordering", "packets overtake", trouble.reordering),
    Case("trimming", "payloads are cut off", trouble.trimming, (RELIABLE,)),
    Case("full header queues", "headers are lost", trouble.full_header_queues, (RELIABLE,)),
    Case("windows", "same result for any window length", repeat.windows),
    Case("compiled", "same result compiled and plain", repeat.compiled_as_plain, (COMPILED,)),
    Case("threads", "same result for 1, 2, 4 threads", repeat.threads, (COMPILED,)),
    Case("alone", "slowdown of a lone flow", figures.alone),
    Case("shared link", "four flows, one link", figures.shared_link, (COMPILED,)),
    Case("shared host", "four flows, one host", figures.shared_receiver, (COMPILED,)),
)
