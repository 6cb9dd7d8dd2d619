"""Values of every type and at every limit, which are likely to reveal errors."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Raw:
    """The text of a value in a TOML file, valid or not."""

    text: str


PLAUSIBLE: dict[str, tuple[Any, ...]] = {
    "time": ("1ps", "1ns", "100ns", "1us", "2.5us", "50us", "1ms", "30ms", "1s", "none"),
    "bytes": ("1B", "64B", "1000B", "4KiB", "4KB", "9000B", "20KB", "100KB", "1MB"),
    "rate": ("1Mbps", "100Mbps", "1Gbps", "10Gbps", "33.28Gbps", "100Gbps", "800Gbps", "3.2Tbps"),
    "queue": ("1B", "1pkt", "8pkt", "100pkt", "4KB", "12MB", "auto", "none", "1bdp", "0.2bdp"),
    "buffer": ("1B", "100pkt", "100KB", "12MB", "none"),
    "count": (0, 1, 2, 3, 4, 7, 8, 16),
    "fraction": (0.0, 1e-6, 0.01, 0.3, 0.5, 0.999, 1.0),
    "ratio": (0.0, 0.1, 0.5, 0.8, 1.0, 1.5, 4.0, 100.0),
    "bool": (True, False),
    "text": ("some text", "", "π ≈ 3"),
    "file": ("pfc_victim.csv", "wan_beside.csv", "none.csv"),
    "sizes": ("4KB", "1B", "web_search", "homa_w1", [["1KB", 0.5], ["9KB", 1.0]]),
    "job": ("gpt3_175b", "moe", "none.toml", {"model": "llama3_8b"}),
    "topology": ("fat_tree", {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2}),
    "ports": ("all", ["leaf0:*", "leaf0 -> spine*"], ["leaf0:1", "h1"], ["h0 - leaf*"], 3, 0, []),
    "hosts": (["h0"], ["h*"], 1, 0, "h1"),
    "flows": ([0], [0, "1..2"], "0..3", 2, 0, []),
    "fields": (["cwnd"], ["rate", "una"], ["tx.retransmits", "rx.received_bytes"], "next_seq", []),
}
"""Plausible values by the unit of a parameter ("queue": the fabric's sizes)."""

ODD: dict[str, tuple[Any, ...]] = {
    "time": (
        "0ps", "0s", "0.5ps", "-1us", "1e3us", "4611686018427387903ps", "4611686018427387904ps",
        "4611686s", "1000000s", "9223372036854775807ps", "1 us", "1  us ", "us", "1µs", "1ks",
        "999999999999999999999999999999s", "1.000000000000000000000000000001s", "1h", 1, 1.5, 0,
    ),
    "bytes": (
        "0B", "0.5B", "-1B", "1KiB", "65535B", "65536B", "65471B", "1MiB", "1TiB", "4000000TB",
        "4611686018427387903B", "4611686018427387904B", "1 KB", "1Kb", "1kb", "KB", "1e6B", 4096,
        "2147483648B", "4294967296B", "100EB", "\uff11KB",
    ),
    "rate": (
        "0bps", "1bps", "3bps", "10bps", "1kbps", "3kbps", "1000Tbps", "4000000Tbps",
        "4611686018427387903bps", "9223372036854775808bps", "-1Gbps", "7bps", "100gbps", "100Gb",
        "1e11bps", 100, "100 Gbps", "12345678901bps",
    ),
    "queue": (
        "0bdp", "-1bdp", "99999999bdp", "1e3bdp",
        "0pkt", "0B", "-1pkt", "1.5pkt", "99999999999999999999pkt", "1000000000000pkt",
        "4611686018427387903B", "pkt", "1 pkt", "1pkts", "1pktz", 100, "1e3pkt", "2147483648B",
    ),
    "buffer": ("0pkt", "0B", "-1pkt", "1bdp", "4611686018427387903B", "1 pkt", 100, "2147483648B"),
    "count": (
        -1, 0, 9, 63, 64, 65, 127, 255, 256, 1000, 65535, 65536, 1000000, 2**31 - 1, 2**31, 2**32,
        2**62 - 1, 2**62, 2**63 - 1, 2**63, -(2**63), Raw("9" * 400), Raw("9" * 5000), 1.0, 1.5,
        "1", "1..3", "3..1", "1..1", "0..99999999999", "1..", Raw("0x10"), Raw("1_000"), Raw("0o7"),
    ),
    "fraction": (
        -0.1, 1.0000001, 2, -1e-300, 5e-324, 1e-12, 1e308, Raw("1e400"), Raw("nan"), Raw("inf"),
        Raw("-inf"), Raw("+0.0"), Raw("-0.0"), "0.5", "50%", True,
    ),
    "ratio": (
        -1.0, 1e-300, 1e-9, 1e-6, 1e9, 1e18, 1e300, 1e308, Raw("1e400"), Raw("nan"), Raw("inf"),
        10**400, "1", True, 5e-324, 2**63,
    ),
    "bool": (0, 1, "true", "yes", Raw("True"), [True, False], 1.0),
    "choice": ("", "NDP", "ecmp ", "none", "Spray_rr", "drop-tail", 1, True),
    "text": (
        "\x00", "a\x00b", "\n", "\x1b[31mred", "a" * 300, "../..", "/", "~", "~nosuchuser/x",
        "%s%n{0}", "\ud7ff", "\U0001f4a9", "x" * 5000, ".", "..", "-", " ", "a/b", "CON", 3, True,
        "results\u202e", "[red]markup[/red]", "[/]",
    ),
    "file": (
        "", ".", "/", "/dev/null", "/dev/zero", "/proc/self/mem", "~nosuchuser/x.csv", "a\x00b.csv",
        "x" * 300 + ".csv", "no.parquet", "..", "pfc_victim.csv/x", 1, "\U0001f4a9.csv",
    ),
    "sizes": (
        "1TB", "4611686018427387903B", "0B", [], [[]], [["1KB", 0.5]], [["1KB", 2.0]], "websearch",
        [["1MB", 0.5], ["1KB", 1.0]], [["1KB", 0.5], ["1KB", 0.4]], [["1KB", True]], "/dev/zero",
        [["1KB", 0.0], ["1TB", 1.0]], [[1000, 1.0]], "a\x00b", [["0B", 1.0]],
    ),
    "topology": (
        "", "nosuch", "multi_plane", 1, {}, [], {"kind": 3}, {"kind": "ocs"}, [{"kind": "ocs"}],
        {"kind": "multi_plane", "planes": 2}, {"kind": "fat_tree", "leef": 1}, "./none.py", True,
    ),
    "ports": (
        ["leaf0:" + "9" * 5000], ["leaf0:99"], ["leaf0:-1"], [":"], ["*:*"], ["[:0"], "h0 ->", -1,
        [["all"]], [0], ["leaf0:\u0661"], ["all", "all"], 2**70, ["-"], [""],
    ),
    "hosts": (["h" * 300], ["["], [""], [1], -1, 2**70, ["leaf0"], [["h0"]], {"h0": 1}, "h[0-1]"),
    "flows": (
        ["3..1"], ["0..99999999999"], [2**70], ["-1"], [-1], [1.0], ["a"], "..", [True], [[0]],
    ),
    "fields": (["x"], [""], [1], ["tx."], ["tx.tx.cwnd"], "flow", ["cwnd", "cwnd"], 3, ["\x00"]),
}  # fmt: skip
"""Values at or beyond a limit, or almost correctly spelled."""

ANYTHING: tuple[Any, ...] = (
    True, False, 0, 1, -1, 1.5, -0.5, 2**63, 10**30, "", " ", "none", "auto", "all", "1", [], [[]],
    [1, "a"], [[[]]], {}, {"kind": "ndp"}, {"a": {"b": {"c": 1}}}, Raw("1979-05-27"),
    Raw("1979-05-27T07:32:00Z"), Raw("07:32:00"), Raw("nan"), Raw("inf"), Raw("1e400"), "\x00",
    Raw("9" * 5000), Raw("[" * 200 + "]" * 200), Raw("[" * 3000 + "]" * 3000),
    Raw("{a=" * 150 + "1" + "}" * 150), Raw("'''multi\nline'''"), Raw('"\\uD800"'), Raw("0xFFFF"),
    ["a", "b"], [1, 2], [1, 1], [True, False], ["1KB", "2KB"], [{}, {}], [{"kind": "ndp"}], "1..4",
    "1..3..5", "x" * 300, "é", "①", "\u0661", "1e3", "-", "[", "0.1.2", "²",
)  # fmt: skip
"""Values of every type, for any key."""

WRONG_ANYWHERE = (Raw("1979-05-27"), Raw("1979-05-27T07:32:00Z"), Raw("07:32:00"), Raw("nan"))
"""Values that no key allows; accepting one is a finding."""


def of_unit(rng: random.Random, unit: str, choices: Sequence[str] = ()) -> Any:
    """Return a value for a key of this unit: mostly plausible, else odd."""
    if choices:
        return rng.choice(choices if rng.random() < 0.9 else ODD["choice"])
    return rng.choice((PLAUSIBLE if rng.random() < 0.7 else ODD).get(unit, ANYTHING))


def neighbor(rng: random.Random, value: Any) -> Any:
    """Return a similar value: another number, unit or spelling."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value - 1, value + 1, value * 2, value // 2, -value, value * 10**6])
    if isinstance(value, float):
        return rng.choice([value / 2, value * 2, -value, value * 1e9, value * 1e-9, value + 1])
    if isinstance(value, list):
        return rng.choice([value[:1], [*value, *value[:1]], value[::-1], [value], value[1:]])
    if isinstance(value, str) and value[:1].isdigit():
        digits = value.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        unit = value[len(digits) :]
        factor = rng.choice(["0", "00", "000000", "", "1", ".5", "0." + digits, "-" + digits])
        return rng.choice(
            [digits + factor + unit, digits, unit, digits + " " + unit, factor + unit]
        )
    return misspelled(rng, value) if isinstance(value, str) else rng.choice(ANYTHING)


def misspelled(rng: random.Random, word: str) -> str:
    """Return `word` with a typo or a look-alike letter."""
    if not word:
        return "x"
    at = rng.randrange(len(word))
    return rng.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[:at] + word[at:][1:2] + word[at : at + 1] + word[at + 2 :],
            word.upper(),
            word.replace("_", "-"),
            word.replace("a", "\u0430").replace("e", "\u0435"),
            word + "s",
            word + " ",
            word[:at] + rng.choice("xq0_.é\x00 ") + word[at:],
        ]
    )


STRANGE = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\xed\xa0\x80", b'"', b"[", b"]]", b"=", b"#",
    b",,,,", b"\n[topology]\n", b"a.b.c = 1\n", b"\nseed = 1\nseed = 2\n", b"'''", b"\\", b" " * 99,
    b"\x1b[2J", b"[" * 20000, b"a." * 2000 + b"b = 1\n", b"x = " + b"{a=" * 2000, b"9" * 999, b"->",
    b"\n[[topology]]\n", b"\n[" + b"a." * 3000 + b"a]\n",
)  # fmt: skip
"""Bytes to insert into files."""
