"""Finding plugins: built in, installed, and single files, reloaded when they change."""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest
from raises_input import mentions, raises_input

from netsim.errors import InputError
from netsim.plugins import registry

TRANSPORT = '''"""A test transport.

More text."""
from netsim.params import Param
PARAMS = [Param("rto", "time", "1ms", "timeout")]
PRESETS = {"fast": {"rto": "10us"}}
'''


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_built_in_plugins_are_found_by_name():
    plugin = registry.find("topology", "fat_tree")
    assert (plugin.kind, plugin.name) == ("topology", "fat_tree")
    assert plugin.module.__name__ == "netsim.topologies.fat_tree"
    assert plugin.path.name == "fat_tree.py"
    assert plugin.param("leaves") is not None
    assert plugin.param("nothing") is None
    assert "permutation" in registry.names("traffic")
    assert not [name for name in registry.names("traffic") if name.startswith("_")]


def test_every_built_in_plugin_loads():
    for kind in registry.KINDS:
        assert registry.broken(kind) == {}
        assert [plugin.name for plugin in registry.plugins(kind)] == registry.names(kind)
        for plugin in registry.plugins(kind):
            assert plugin.summary.endswith("."), "its first line is not a sentence of its own"
        found = [(plugin.name, plugin.summary) for plugin in registry.plugins(kind)]
        assert registry.summaries(kind) == found


@pytest.mark.parametrize(("name", "hint"), [("fattree", '"fat_tree"'), ("./fat_tree", ".py")])
def test_unknown_name_suggests_a_similar_one(name, hint):
    with raises_input(name, hint):
        registry.find("topology", name)


def test_changed_module_next_to_a_file_is_reloaded(tmp_path):
    text = "import beside\n" + TRANSPORT.replace('"1ms"', "beside.RTO")
    path = list(sys.path)
    for folder, value in [("a", "1ms"), ("b", "2ms")]:
        write(tmp_path / folder / "beside.py", f'RTO = "{value}"\n')
        write(tmp_path / folder / "mine.py", text)

    def default(folder: str) -> object:
        return registry.find("transport", str(tmp_path / folder / "mine.py")).params[0].default

    assert (default("a"), default("b"), default("a")) == ("1ms", "2ms", "1ms")
    write(tmp_path / "a" / "beside.py", 'RTO = "3ms"\n')
    assert (default("a"), default("b")) == ("3ms", "2ms")
    assert sys.path == path


def test_missing_file_is_reported_with_its_folder(tmp_path):
    with pytest.raises(InputError) as caught:
        registry.find("transport", "no.py", relative_to=tmp_path)
    assert mentions(str(caught.value), "no.py", tmp_path)


def test_paths_that_are_not_files_are_rejected_unread(tmp_path):
    """Reading a pipe would block forever."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    for name in ("pipe.py", "folder.py"):
        with raises_input(tmp_path / name):
            registry.find("transport", name, relative_to=tmp_path)


def test_installed_plugins_are_found_by_entry_point(tmp_path, monkeypatch):
    write(tmp_path / "installed_one.py", TRANSPORT)
    write(tmp_path / "installed_two.py", "1 / 0")
    group = "netsim.transports"
    points = [
        importlib.metadata.EntryPoint("one", "installed_one", group),
        importlib.metadata.EntryPoint("two", "installed_two", group),
        importlib.metadata.EntryPoint("three", "installed_one:PARAMS", group),
    ]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points if "transports" in group else []
    )
    assert registry.find("transport", "one").params[0].name == "rto"
    assert {"one", "two", "three"} <= set(registry.names("transport"))
    assert "one" in [plugin.name for plugin in registry.plugins("transport")]
    assert dict(registry.summaries("transport")).keys() & {"one", "two", "three"} == {"one"}
    assert registry.broken("transport") == {
        "two": 'cannot load the plugin "two": ZeroDivisionError: division by zero at line 1 of '
        f"{tmp_path}/installed_two.py",
        "three": 'the installed transport "three" is not a module (its entry point must '
        "name only the module)",
    }


def test_preset_is_split_from_the_name():
    for name, parts in [
        ("ndp", ("ndp", None)),
        ("dcqcn:paper-40g", ("dcqcn", "paper-40g")),
        ("./mine.py:fast", ("./mine.py", "fast")),
        ("C:\\mine.py", ("C:\\mine.py", None)),
        ("ndp:", ("ndp", "")),
    ]:
        assert registry.split_preset(name) == parts
