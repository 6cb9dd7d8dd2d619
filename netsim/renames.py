"""Former public names. Each is an error that gives the new name, not an alias.

`did_you_mean` finds the new name of an unknown key, value, option or command. A module that plugins
import has `__getattr__ = former(__name__)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NoReturn

RENAMED: dict[str, dict[str, str]] = {
    "column": {
        "algorithm_bps": "algbw_bps",
        "bus_bps": "busbw_bps",
        "waited_for": "blocked_by",
        "dark": "no_circuit_drops",
        "dark_bytes": "no_circuit_bytes",
        "marks": "ecn_marks",
        "pauses": "pfc_pauses",
        "pauses_sent": "pfc_pauses_sent",
        "duty": "circuit_duty_cycle",
        "utilisation": "utilization",
        "lit_ps": "circuit_up_ps",
        "waited_ps": "exposed_wait_ps",
        "leg": "segment",
        "first_machine": "prefill_instance",
        "second_machine": "decode_instance",
        "started_ps": "prefill_start_ps",
        "kv_start_ps": "kv_transfer_start_ps",
        "kv_there_ps": "kv_transfer_end_ps",
        "joined_ps": "decode_start_ps",
        "first_gap_ps": "second_token_ps",
        "first_gap_p99_ps": "second_token_p99_ps",
        "tbt_mean_ps": "tpot_ps",
        "again": "is_retransmit",
        "piece": "segment",
        "after": "start_reason",
        "formula": "is_analytic",
        "number": "entity_index",
        "class": "traffic_class",
        "way": "routing_table",
        "machine": "instance",
        "tokens": "generated_tokens",
        "batch": "decode_batch",
        "pairs": "attention_pairs",
        "rx.got_bytes": "rx.received_bytes",
        "met": "slo_attainment",
        "capacity": "available_gpu_share",
    },
    "file": {"legs.parquet": "relay_segments.parquet", "slots.parquet": "circuit_slots.parquet"},
    "event": {"give": "indirect", "lose": "lost"},
    "command": {"economics": "cost"},
    "workload": {"inference": "lite-gpu"},
    "subcommand": {
        "workload validate": "validate hardware",
        "workload --validate": "validate hardware",
    },
    "plot": {
        "fct": "fct_cdf",
        "goodput": "serving_goodput",
        "load": "fct_vs_load",
        "series": "timeseries",
        "serving": "serving_latency",
        "transports": "fct_by_transport",
    },
    "fabric": {
        "n_classes": "n_traffic_classes",
        "planes": "plane_balancing",
        "model": "queue_discipline",
        "load_balancing": "routing",
    },
    "fabric.routing": {"spray_rr": "spray_round_robin"},
    "fabric.plane_balancing": {"free": "least_loaded"},
    "fabric.circuits": {
        "in_flight": "at_circuit_end",
        "relayed_class": "indirect_class",
        "clock_error": "clock_offset",
    },
    "fabric.circuits.at_circuit_end": {"held": "wait", "lost": "drop"},
    "fabric.circuits.indirect": {"offload": "opportunistic", "valiant": "vlb"},
    "stop": {"time": "max_time", "flow_deadline": "flow_timeout"},
    "routing": {"converge": "convergence_delay"},
    "outputs": {"sample": "sample_interval", "budget": "sample_budget", "queues": "queue_stats"},
    "faults": {"loss": "loss_rate"},
    "": {"classes": "flow_classes"},
    "topology ocs.schedule": {"fixed": "static", "demand": "demand_aware"},
    "topology ocs.reconfigure": {"phases": "per_phase"},
    "topology multi_rail": {
        "gpus": "gpus_per_rack",
        "relay": "relay_at",
        "reduction": "reduction_delay",
    },
    "topology fat_tree": {"reduction": "reduction_delay"},
    "topology wan": {"others": "other_datacenter"},
    "traffic chakra": {"at_once": "concurrency"},
    "traffic goal": {"eager": "eager_threshold"},
    "traffic ns3_flows": {"begin": "start_times"},
    "traffic opera_flows": {"begin": "start_times"},
    "topology multi_plane": {"degraded": "last_plane_rate_fraction"},
    "traffic serving": {
        "machines": "instances",
        "repair": "repair_time",
        "swap": "swap_time",
        "restart": "restart_time",
        "stride": "gpu_stride",
        "ttft": "slo_ttft",
        "tbt": "slo_tbt",
        "outages": "failure_trace",
        "kv_chunks": "kv_layer_groups",
        "pool_of": "pooled",
        "pool_share": "pooled_fraction",
        "pool_rate": "pool_read_rate",
        "length_least": "length_min",
        "length_most": "length_max",
        "prefill_machines": "prefill_instances",
        "decode_machines": "decode_instances",
        "kv": "kv_transfer",
        "control": "control_message_size",
        "slots": "max_iterations",
        "pool": "pool_hosts",
        "lengths": "length_distribution",
        "arrivals": "arrival_process",
    },
    "traffic serving.kv_transfer": {"after": "after_prefill", "layers": "layerwise"},
    "traffic inference": {
        "machines": "instances",
        "pool_of": "pooled",
        "pool_share": "pooled_fraction",
        "grows": "context_grows",
        "pieces": "block_chunks",
        "kv": "kv_transfer",
        "pool": "pool_hosts",
    },
    "traffic inference.kv_transfer": {"after": "after_prefill", "layers": "layerwise"},
    "traffic inference.overlap": {"pieces": "chunks"},
    "traffic inference.pool_read": {"beside": "prefetch", "before": "on_demand"},
    "deployment": {"costs": "overheads"},
    "deployment overheads": {"prompt_floor": "prefill_floor", "launch_ahead": "async_launch"},
    "job": {"optimiser": "optimizer"},
    "traffic poisson": {"between": "cdf_interpolation"},
    "traffic ns3_flows.start_times": {"written": "as_given", "zero": "from_zero"},
    "traffic opera_flows.start_times": {"written": "as_given", "zero": "from_zero"},
    "option": {
        "--again": "--force",
        "--checked": "--check-bounds",
        "--critical": "--critical-path",
        "--until": "--to",
        "--directory": "--experiment-dir",
        "--full": "--long",
    },
    "attribute": {
        "large_bytes": "large_min_bytes",
        "otherwise": "fallback",
        "small": "small_table",
        "ways": "policy",
        "expect": "reserve",
        "held": "deferred",
        "places": "local_indices",
    },
    "field": {"got_bytes": "received_bytes", "marks": "ecn_marks"},
    "handler": {
        "choose": "choose_class",
        "fill": "build_packet",
        "pick": "choose_packet",
    },
    "netsim.network": {
        "Defaults": "GraphDefaults",
        "Way": "NamedRouting",
        "Ways": "RoutingPolicy",
        "in_slot": "routes_in_slot",
        "over_cables": "packet_fabric_routes",
        "over_circuits": "circuit_routes",
        "over_direct_circuits": "direct_circuit_routes",
        "build_part": "build_subtopology",
        "expect_trees": "reserve_trees",
        "tournament": "round_robin_matchings",
    },
    "netsim.queue": {
        "NOTHING": "NO_CLASS",
        "cut": "trim",
        "pauses": "is_pausing",
        "push": "enqueue",
        "serialisation_ps": "serialization_ps",
        "take_last": "pop_tail",
        "waiting": "queue_length",
    },
    "netsim.transport": {
        "full_bytes": "full_packet_bytes",
        "payload_of": "packet_payload_bytes",
        "serialisation_ps": "serialization_ps",
    },
    "netsim.program": {
        "note": "log_row",
        "peer_of": "peer_host",
        "size_of": "flow_bytes",
        "task_of": "task_at",
        "serialisation_ps": "serialization_ps",
    },
    "netsim.workloads.operations": {"How": "CollectiveOptions"},
    "topology ocs": {
        "switches": "circuit_switches",
        "matching": "static_pattern",
        "matchings": "matching_file",
        "slots": "max_matchings",
        "order": "shuffle_seed",
        "switching": "reconfiguration_delay",
        "sync": "sync_delay",
        "control": "control_delay",
        "margin": "day_margin",
        "drain": "drain_time",
        "small": "small_message_max",
        "duplex": "bidirectional",
        "predict_error": "prediction_error",
        "packet_rate": "packet_uplink_rate",
        "group": "group_size",
        "fibre_latency": "fiber_latency",
    },
    "site": {"data_centres": "datacenters"},
    "prices": {"fibre": "fiber"},
    "netsim.conformance": {"Lab": "Testbed", "QueueLab": "QueueTestbed"},
}
"""Kind -> old name -> new name.

A kind is "command", "subcommand" (after its command), "plot", "option", "column", "file" (of a
result), "event", a section of an experiment ("fabric.circuits"), a plugin and its keys ("topology
ocs"), a key and its values ("topology ocs.schedule"), "handler" (of a plugin), "field" (of its
records), "attribute" (or argument, of objects that plugins use), or a module ("netsim.queue").
"""


def new_name(old: str, known: Collection[str]) -> str | None:
    """Return the known name that replaced an old one, which may be dotted."""
    above, dot, last = old.rpartition(".")
    whole = [table[old] for table in RENAMED.values() if old in table]
    names = [above + dot + table[last] for table in RENAMED.values() if last in table]
    return next((name for name in whole + names if name in known), None)


def former(module: str) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module with former names."""

    def refuse(name: str) -> NoReturn:
        if new := RENAMED[module].get(name):
            raise ImportError(f"{module}.{name}: renamed (write {new})")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return refuse
