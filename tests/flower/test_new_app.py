"""The app that `flr flower init` writes: complete, accepted by Flower, and it runs."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path, PurePosixPath

import pytest
import tomli_w
from flwr.cli.build import build_fab_from_disk
from packaging.requirements import Requirement

import flr
from flr.core.errors import ConfigError, DataError
from flr.flower import settings
from flr.flower.check_app import check_app, run_config
from flr.flower.new_app import rendered, write_app
from flr.flower.server import refuse
from flr.flower.settings import Flower

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
CONFIGS = [p.name for p, _ in rendered("x", "x") if p.parent == PurePosixPath("conf")]
DEPLOY = [p.as_posix() for p, _ in rendered("x", "x") if p.parent == PurePosixPath("deploy")]
SIMULATED = 100


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return write_app(tmp_path / "my-federation")


def test_flower_accepts_it_without_a_warning(app: Path) -> None:
    script = (
        "import json, pathlib, sys\n"
        "from flwr.cli.config_utils import load_and_validate\n"
        "print(json.dumps(load_and_validate(pathlib.Path(sys.argv[1]))))\n"
    )  # in a process of its own: it imports the app
    command = [sys.executable, "-c", script, str(app / "pyproject.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    project, warnings = json.loads(done.stdout)
    assert not warnings
    assert project["project"]["name"] == "my-federation"
    components = project["tool"]["flwr"]["app"]["components"]
    assert components["clientapp"] == "my_federation.client_app:app"


def test_a_bundle_has_all_files_but_what_git_ignores(app: Path) -> None:
    written = {path.relative_to(app).as_posix() for path in app.rglob("*") if path.is_file()}
    private = ["runs/flr-1/config.toml", "keys/notes.md", "certificates/about.md", "state/x.json"]
    for name in private:
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text("")
    with zipfile.ZipFile(io.BytesIO(build_fab_from_disk(app))) as bundle:
        packed = set(bundle.namelist())
    assert written == {
        *(".gitignore", "LICENSE", "README.md", "pyproject.toml"),
        *(f"my_federation/{name}.py" for name in ("__init__", "client_app", "server_app")),
        *(f"conf/{name}" for name in CONFIGS),
        *DEPLOY,
    }
    assert written - packed == {".gitignore", *DEPLOY}, "sites need no files of the server"
    assert not packed & set(private)


def test_the_licence_is_ours(app: Path) -> None:
    assert (app / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_its_requirements_are_those_of_this_version(app: Path) -> None:
    project = tomllib.loads((app / "pyproject.toml").read_text())["project"]
    wanted = {r.name: r for r in map(Requirement, project["dependencies"])}
    assert wanted.keys() == {"flr", "flwr"}
    assert version("flr") in wanted["flr"].specifier
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extra,) = map(Requirement, ours["optional-dependencies"]["flower"])
    assert wanted["flwr"] == extra


def test_every_setting_of_flower_can_be_overridden(app: Path) -> None:
    own = {key.removeprefix("flower.") for key in run_config(app) if key.startswith("flower.")}
    assert own == {field.alias for field in Flower.model_fields.values()}
    flower, _, _ = settings.read(run_config(app))
    assert flower == Flower(), "an untouched app has Flower's defaults"


def test_its_config_is_fine(app: Path) -> None:
    said = check_app(app)
    assert f"{SIMULATED} simulated sites" in said


@pytest.mark.parametrize("name", CONFIGS)
def test_each_file_of_changes_is_fine(name: str, app: Path) -> None:
    changed = run_config(app, [str(app / "conf" / name)])
    assert changed != run_config(app)
    flower, tree, overrides = settings.read(changed)
    refuse(settings.resolve(flower, tree, overrides), flower)


def test_the_readme_names_every_file_of_changes(app: Path) -> None:
    text = (app / "README.md").read_text()
    assert all(f"`conf/{name}`" in text for name in CONFIGS)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (["round=3 train.lrr=0.1"], 'Did you mean "rounds"?'),
        (["rounds=x"], "Correct them"),
        (["gone.toml"], "gone.toml"),
        (["drop=0.1"], "drop is not there"),
        (['set="drop=0.1"'], "drop is for simulated clients"),
        (['set="eval.validation=0.1"'], "on Flower no site is asked to count its own"),
        (["set=\"eval.metrics=['worst-site']\""], "true labels"),
        (['flower.classes="a, b"'], "flower.min-sites"),
        (["partition.clients=9999"], "9,999 sites"),
        (['method="frl"'], 'Did you mean "flr"?'),
    ],
)
def test_wrong_changes_are_refused(changes: list[str], part: str, app: Path) -> None:
    with pytest.raises(ConfigError) as error:
        check_app(app, changes)
    assert part in str(error.value)


def test_a_folder_without_an_app_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Expected a Flower app"):
        check_app(tmp_path)


@pytest.mark.parametrize(
    "name", ["9wards", "my app", "ward.7", "wärd", "end-", "a" * 33, "class", "torch", "flr", "lib"]
)
def test_a_name_that_cannot_be_an_app_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Expected a folder with a name"):
        write_app(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(app: Path, tmp_path: Path) -> None:
    (app / "README.md").write_text("mine")
    with pytest.raises(DataError, match="is a folder that holds"):
        write_app(app)
    assert (app / "README.md").read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match="is a file"):
        write_app(tmp_path / "file")


def test_an_empty_folder_is_filled_where_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "wards"
    folder.mkdir()
    before = folder.stat().st_ino
    write_app(folder)
    assert folder.stat().st_ino == before, "a shell may stand in it"
    assert [path.name for path in tmp_path.iterdir()] == ["wards"]
    check_app(folder)


@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_leaves_nothing(exists: bool, tmp_path: Path) -> None:
    """A disk that is full, as far as one process is concerned: a limit on the size of files."""
    folder = tmp_path / "place" / "wards"
    (folder if exists else folder.parent).mkdir(parents=True)
    script = (
        "import pathlib, resource, signal, sys\n"
        "from flr.flower.new_app import write_app\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "try:\n"
        "    write_app(pathlib.Path(sys.argv[1]))\n"
        "except OSError:\n"
        "    sys.exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], check=False)
    assert done.returncode == 9
    assert list(folder.parent.rglob("*")) == ([folder] if exists else [])


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a SuperLink for simulations, which runs; ends it and what it started."""
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    connection = {"address": f"127.0.0.1:{port}", "insecure": True}
    (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"sim": connection}}))
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(PROGRAMS), os.environ["PATH"]]),
        "FLWR_HOME": str(home),
        "FLR_STATE": str(tmp_path / "state"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "NO_PROXY": "127.0.0.1",
    }
    command = [str(PROGRAMS / "flower-superlink"), "--insecure", "--simulation"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--disable-runtime-dependency-installation"]
    with (tmp_path / "superlink.log").open("w") as log:
        superlink = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_until(lambda: reachable(port))
            yield environment
        finally:
            superlink.terminate()
            superlink.wait()
            for process in processes(home):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(ready: Callable[[], bool]) -> None:
    for _ in range(600):
        if ready():
            return
        time.sleep(0.1)
    pytest.fail("the SuperLink does not listen")


def processes(home: Path) -> list[int]:
    """Those that inherited this FLWR_HOME, whoever started them."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has just ended, or is somebody else's
            if (
                entry.name.isdecimal()
                and f"FLWR_HOME={home}\0".encode() in (entry / "environ").read_bytes()
            ):
                found.append(int(entry.name))
    return found


def test_a_hundred_simulated_sites_give_the_same_bits_as_in_process(
    app: Path, simulation: dict[str, str], tmp_path: Path
) -> None:
    """Through SuperLink, Ray and `flwr run`: nothing of this is ours, and nothing is different."""
    out, changes = tmp_path / "run", tmp_path / "changes.toml"
    changes.write_text(tomli_w.dumps({"rounds": 2, "flower.out": str(out)}))
    command = [str(PROGRAMS / "flwr"), "run", str(app), "sim", "--stream"]
    command += ["--run-config", str(changes)]
    command += ["--federation-config", f"num-supernodes={SIMULATED} client-resources-num-cpus=1"]
    said = subprocess.run(command, env=simulation, capture_output=True, text=True, check=True)
    assert (out / "report.html").is_file(), said.stdout

    _, tree, _ = settings.read(run_config(app, [str(changes)]))
    alone = flr.run({**tree, "workers": 1}, out=tmp_path / "alone")
    assert len(alone.metrics) == 2
    members = json.loads((out / "federation.json").read_text())
    assert len(members["sites"]) == SIMULATED
    model = (out / "model.safetensors").read_bytes()
    assert model == (alone.folder / "model.safetensors").read_bytes()
