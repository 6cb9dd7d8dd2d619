"""A process loads compiled code once for all engines that need it."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path

import pytest
from cache_folders import no_compiler
from engine_runs import DROP_TAIL, TRIM, build, fat_tree, flow_table, run

from netsim.engine.compiling import cache, specialize
from netsim.engine.compiling.cache import cache_folder
from netsim.engine.compiling.specialize import Code
from netsim.engine.engine import code_of
from netsim.model.fabric import Fabric
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec


def code_for(fabric: Fabric) -> Code:
    """Return the code for datagrams on a fabric."""
    plugin = registry.find("transport", "datagram")
    params = {param.name: param.convert(param.default) for param in plugin.params}
    return code_of([PluginSpec(plugin, params)], fabric)


def test_second_engine_loads_nothing(monkeypatch):
    network = fat_tree(2, 2, "100Gbps")
    flows = flow_table([(0, 3, 50_000, 0)])
    first = run(build(network, flows, "ndp", TRIM)).digest()

    def fail(*_: object) -> None:
        raise AssertionError("loaded again")

    monkeypatch.setattr(cache, "load", fail)
    with no_compiler(monkeypatch):
        for threads in (1, 2):
            again = run(build(network, flows, "ndp", TRIM, threads=threads))
            assert again.digest() == first


def key(letter: str) -> str:
    return letter * 20


def test_least_recently_used_code_is_removed(tmp_path: Path, monkeypatch):
    """Folders that netsim did not create are kept, in the user's folder and in its own."""
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "KEPT_CACHES", 3)
    place = tmp_path / cache.FOLDER
    (tmp_path / "away").mkdir()
    for name in (key("1"), "project"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").write_text("mine")
    place.mkdir(0o700)
    (place / "notes").mkdir()  # no key
    (place / key("8")).symlink_to(tmp_path / "away")
    others = {key("8"), "notes"}
    for path in (place / "notes", tmp_path / key("1"), tmp_path / "away"):
        os.utime(path, (10**8, 10**8))
    for age, letter in enumerate("dcba"):
        folder = cache_folder(key(letter))
        assert folder is not None
        assert folder.stat().st_mode & 0o777 == 0o700
        os.utime(folder, (10**9 + age, 10**9 + age))
    cache_folder(key("c"))
    cache_folder(key("e"))
    assert {path.name for path in place.iterdir()} - others == {key(one) for one in "ace"}
    assert {path.name for path in place.iterdir()} >= others
    assert {path.name for path in tmp_path.iterdir()} == {cache.FOLDER, "away", "project", key("1")}


@pytest.mark.parametrize("there", [True, False])
def test_cached_code_is_found_without_loading_it(tmp_path: Path, monkeypatch, there):
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(specialize, "_loaded", OrderedDict())
    wanted = code_for(DROP_TAIL)
    folder = cache_folder(wanted.key)
    assert folder is not None
    (folder / f"{'run_windows' if there else 'set_up_flows'}.0123.code").touch()
    assert wanted.is_kept() == there
