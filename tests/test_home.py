"""No command touches files outside its output directory and netsim's own cache."""

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

from netsim.cli.app import commands

EXPERIMENT = """
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
[traffic]
kind = "{traffic}"
size = "20KB"
"""

SESSION = """
import sys
from netsim.cli.app import main
from netsim.engine.compiling import cache

cache.KEPT_CACHES = 1
for n in range(3):  # plain Python runs create no cache folders
    cache.cache_folder(f"{n:020x}")
for line in sys.stdin.read().splitlines():
    expected, *arguments = line.split()
    try:
        main(arguments)
    except SystemExit as end:
        assert end.code == int(expected), (line, end.code)
"""

COMMAND_LINES = """
0 list
0 show transport ndp
0 check e.toml
0 run e.toml --out out/r --plot --checkpoint 60s
2 run e.toml --out out/r --seed 2 --quiet
0 run mine.toml --out out/mine --quiet
0 run steps.toml --out out/t --quiet
0 run e.toml --out out/s --seed 1..2 --quiet
2 run e.toml --out out/locked
2 run e.toml --out out/foreign
2 run e.toml --out out/swept --seed 1..2
2 run e.toml --out docs
0 plot out/r
0 plot out/r --kind links --out out/thesis.png
0 plot out/t --kind timeline --out out/thesis.pftrace
0 plot out/mine --kind topology --trust
0 plot out/s --x seed
0 report out/r out/s
0 trace out/mine --flow 1 --csv out/thesis.csv --parquet out/thesis.parquet --plot --trust
2 trace out/r --flow 1 --csv docs/pipe
0 why out/mine --flow 1 --trust
0 compare out/r out/r --plot out/thesis.png
0 run out/r
0 topo e.toml --plot --out out/topo.png
0 workload paper
0 cost
0 new transport fresh --directory out
2 validate no_such_group
2 merge out/s
2 saturate e.toml
2 calibrate docs/thesis.tex
2 new transport linked --directory out
0 new topology shape --directory out
0 new queue pair --directory out
0 new traffic twins --directory out
0 check transport datagram --case sizes
0 check queue drop_tail --case order
0 new routing other --directory out
0 check routing ecmp --case tree
0 check traffic permutation --case seed
0 bench --hosts 4 --size 10KB --transport ndp
0 reproduce fig1 --out out
"""

LINKS = {
    "out/.locked.lock": "thesis.tex",
    "out/foreign/summary.json": "thesis.tex",
    "out/swept/seed=1": "results",
    "out/thesis.png": "thesis.tex",
    "out/thesis.pftrace": "thesis.tex",
    "out/thesis.csv": "thesis.tex",
    "out/thesis.parquet": "not there",
    "out/linked.py": "not there",
    "out/r.previous": "results",
    "e.link": "thesis.tex",
    ".cache/netsim/netsim-compiled-v1/00000000000000000009": "results",
}
"""Links in the working directory, and the files in `docs` they point to."""

OURS = ("out", "tmp", ".cache/netsim/netsim-compiled-v1", ".cache/netsim/matplotlib")


def create_user_files(home: Path) -> None:
    """Create a user's files, and links to them wherever netsim is about to write."""
    for folder in ("docs/results", "out/foreign", "out/swept", "tmp", ".config", ".cache/old"):
        (home / folder).mkdir(parents=True)
    for name in ("docs/thesis.tex", "docs/results/data", ".config/settings"):
        (home / name).write_text(name)
    for number in range(5):  # an older version of netsim treated such folders as its own
        project = home / ".cache" / "netsim" / f"{number:020x}"
        project.mkdir(parents=True)
        (project / "main.py").write_text("mine")
    (home / ".cache/netsim/netsim-compiled-v1").mkdir(0o700)
    os.mkfifo(home / "docs/pipe")
    for link, target in LINKS.items():
        (home / link).symlink_to(home / "docs" / target)
    ndp = Path(__file__).parent.parent / "transports" / "ndp.py"
    (home / "mine.py").write_text(ndp.read_text("utf-8"))
    for name, transport, traffic in (
        ("e", "ndp", "permutation"),
        ("mine", "./mine.py", "permutation"),
        ("steps", "ndp", "collective"),
    ):
        text = EXPERIMENT.format(transport=transport, traffic=traffic)
        (home / f"{name}.toml").write_text(text)


def user_files(home: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a home directory except netsim's files, with modification times."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(home):
        place = Path(folder)
        folders[:] = [name for name in folders if str((place / name).relative_to(home)) not in OURS]
        for path in (place, *(place / name for name in (*files, *folders))):
            status, content = path.lstat(), ""
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            holds_ours = path in (home, home / ".cache", home / ".cache" / "netsim")
            times = () if holds_ours else (status.st_mtime_ns, status.st_ctime_ns)
            found[str(path)] = (status.st_mode, status.st_ino, content, *times)
    return found


def test_commands_leave_user_files_untouched(tmp_path: Path) -> None:
    home = tmp_path / "home"
    create_user_files(home)
    before = user_files(home)
    lines = COMMAND_LINES.strip()
    assert {line.split()[1] for line in lines.splitlines()} == commands().keys()
    env = {"HOME": str(home), "TMPDIR": str(home / "tmp"), "NUMBA_DISABLE_JIT": "1"}
    env["PATH"] = os.environ["PATH"]
    done = subprocess.run(
        [sys.executable, "-c", SESSION], input=lines, cwd=home, env=env,
        capture_output=True, check=False, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert user_files(home) == before
    assert os.listdir(home / "tmp") == []
    assert {path.name for path in (home / ".cache/netsim").iterdir() if path.name not in
            {f"{n:020x}" for n in range(5)}} == {"netsim-compiled-v1", "matplotlib"}  # fmt: skip
    assert (home / "out/fresh.py").exists()
