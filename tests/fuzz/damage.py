"""Damaged results: files with bytes lost or changed, keys missing, values of other types."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from . import values

FILES = ("summary.json", "experiment.json", "flows.parquet", "links.parquet", "sweep.parquet")


def damage(rng: random.Random, folder: Path) -> str:
    """Damage a file of the result in `folder`; return a description."""
    found = [path for name in FILES for path in sorted(folder.rglob(name))]
    path = rng.choice(found)
    way = rng.choice(
        ["json", "json", "bytes", "cut", "remove", "empty", "folder", "swap", "unreadable"]
    )
    if way == "json" and path.suffix == ".json":
        return f"{path.name}: {change_json(rng, path)}"
    if way == "cut":
        content = path.read_bytes()
        path.write_bytes(content[: rng.randrange(len(content) + 1)])
    elif way == "remove":
        path.unlink()
    elif way == "empty":
        path.write_bytes(b"")
    elif way == "folder":
        path.unlink()
        path.mkdir()
    elif way == "swap":
        shutil.copyfile(rng.choice(found), path.with_name("other"))
        path.with_name("other").replace(path)
    elif way == "unreadable":
        path.write_bytes(
            rng.choice([b"\xff\xfe", b"[]", b"null", b'"x"', b"{}", b"[" * 20000, b"NaN"])
        )
    else:
        _flip(rng, path)
    return f"{path.name}: {way}"


def _flip(rng: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 3, 20])):
        content[rng.randrange(len(content))] = rng.randrange(256)
    path.write_bytes(content)


def change_json(rng: random.Random, path: Path) -> str:
    """Change, remove or rename one value of a JSON file, at any depth; return a description."""
    tree = json.loads(path.read_text("utf-8"))
    what = change_tree(rng, tree)
    path.write_text(json.dumps(tree), "utf-8")
    return what


def change_tree(rng: random.Random, tree: Any) -> str:
    """Change, remove or rename one value of a parsed JSON file; return a description."""
    places = list(_places(tree))
    holder, key = rng.choice(places)
    way = rng.choice(["value", "value", "remove", "rename"])
    if way == "value":
        odd = [one for one in values.ANYTHING if not isinstance(one, values.Raw)]
        holder[key] = rng.choice([*odd, None, 10**400, -1, 1e308, "1Tbps", "0B"])
    elif way == "rename" and isinstance(holder, dict):
        holder[values.misspelled(rng, key)] = holder.pop(key)
    else:
        del holder[key]
    return f"{way} {key}"


def _places(item: Any) -> list[tuple[Any, Any]]:
    pairs = item.items() if isinstance(item, dict) else enumerate(item)
    found = []
    for key, one in pairs:
        found.append((item, key))
        if isinstance(one, dict | list):
            found += _places(one)
    return found
