"""The shape of the house: links, packaging, directions of imports, budgets, links between documents."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import networkx as nx
import pytest

import transformula

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("grammar", "compiler", "backends", "specs")

# Which folders a folder may import, itself aside. An arrow that is not here is forbidden.
ARROWS = {
    "grammar": set[str](),
    "compiler": {"grammar"},
    "backends": {"compiler", "grammar"},
    "specs": set[str](),
    "transformula": {"grammar", "compiler", "backends"},
}
MAY_IMPORT_TORCH = ("backends/torch/", "benchmarks/", "tests/")

LONGEST_FUNCTION = 60
LONGEST_FILE = 400
LONG_FILES = {  # path -> the reason why this file may be longer
    "backends/numpy/kernels.py": "one flat library, of which the emitter copies what a module needs",
    "compiler/evaluate.py": "the meaning of every operation, one method each, to be read as one table",
    "grammar/syntax.py": "the whole syntax tree, to be read as one table",
}
DOCSTRING_FROM = 7  # lines from which a public function owes a docstring


# --- reading the tree -----------------------------------------------------------------------------


def sources(*folders: str, pattern: str = "*.py") -> list[Path]:
    """The files of some top-level folders, as paths from the root; links and caches are left out."""
    found = []
    for folder in folders:
        for directory, _, names in os.walk(ROOT / folder):  # os.walk does not follow links
            paths = [Path(directory, name).relative_to(ROOT) for name in names]
            found += [path for path in paths if path.match(pattern) and "__pycache__" not in path.parts]
    return sorted(found)


CODE = sources("transformula", *FOLDERS)
USERS = [path for path in sources("tests", "examples", "benchmarks") if "golden" not in path.parts]
DATA = [path for end in ("lark", "j2", "formula", "ttf", "txt") for path in sources(*FOLDERS, pattern=f"*.{end}")]


def parse(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"), str(path))


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    front = () if parts[0] == "transformula" else ("transformula",)
    return ".".join((*front, *parts)).removesuffix(".__init__")


def imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, absolute module, is it relative) of each import in a file, wherever in the file it stands."""
    package = module_name(path.parent / "__init__.py").split(".")
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            # `from .. import grammar` imports a folder by its name, not from the package that is named
            yield from ((node.lineno, f"{module}.{alias.name}", node.level > 0) for alias in node.names)


def folder_of(module: str) -> str | None:
    """The part of the house that holds a module, None if it is not ours."""
    first, *rest = module.split(".")
    if first != "transformula":
        return None
    return rest[0] if rest and rest[0] in FOLDERS else "transformula"


# --- layout ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FOLDERS)
def test_link_is_a_relative_link_to_its_folder(folder: str) -> None:
    link = ROOT / "transformula" / folder
    assert link.is_symlink()
    assert os.readlink(link) == f"../{folder}"
    assert (link / "__init__.py").is_file()


@pytest.mark.parametrize("path", DATA, ids=str)
def test_data_file_is_a_resource(path: Path) -> None:
    resource = files(f"transformula.{path.parts[0]}").joinpath(*path.parts[1:])
    assert resource.read_bytes() == (ROOT / path).read_bytes()


def test_each_folder_with_code_is_a_package() -> None:
    assert not [path for path in CODE if not (ROOT / path.parent / "__init__.py").is_file()]


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text("utf-8")


# --- front door -----------------------------------------------------------------------------------


def test_public_names_are_few_and_exist() -> None:
    assert len(transformula.__all__) < 15
    assert [name for name in transformula.__all__ if not hasattr(transformula, name)] == []
    assert set(transformula.__all__) <= set(dir(transformula))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing_like_this'"):
        transformula.nothing_like_this  # type: ignore[attr-defined]  # noqa: B018


def test_front_door_imports_nothing_heavy() -> None:
    script = "import sys, transformula; print(*{'torch', 'numpy', 'lark', 'networkx'} & set(sys.modules))"
    assert run(sys.executable, "-c", script, cwd=ROOT).strip() == ""


def at_once(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when a module is imported."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If):
            typing = "TYPE_CHECKING" in ast.unparse(node.test)
            yield from at_once([*([] if typing else node.body), *node.orelse])
        elif isinstance(node, ast.Try):
            yield from at_once([*node.body, *node.orelse, *node.finalbody])
            yield from (one for handler in node.handlers for one in at_once(handler.body))


def needs() -> "nx.DiGraph[str]":
    """Which of our modules runs which other ones when it is imported; a module runs the packages around it first."""
    names = {module_name(path): path for path in CODE}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    for name, path in names.items():
        parts, lines = name.split("."), {node.lineno for node in at_once(parse(path).body)}
        wanted = {".".join(parts[:size]) for size in range(1, len(parts))}
        wanted |= {one.rpartition(".")[0] for line, one, _ in imports(path) if line in lines}
        wanted |= {one for line, one, _ in imports(path) if line in lines}
        graph.add_edges_from((name, one) for one in wanted if one in names and one != name)
    return graph


def test_any_module_may_be_imported_first() -> None:
    """Where modules need each other in a circle, it may be entered anywhere; elsewhere the order cannot matter.

    A circle of a package and what is in it is entered at the package only, which Python imports first.
    """
    circles = [circle for circle in nx.strongly_connected_components(needs()) if len(circle) > 1]
    entered = [
        name
        for circle in circles
        for name in sorted(circle)
        if not any(name.startswith(f"{other}.") for other in circle)
    ]
    assert "transformula.compiler.scope" in entered
    for name in entered:
        run(sys.executable, "-c", "import sys; __import__(sys.argv[1])", name, cwd=ROOT)


def test_no_module_brings_torch() -> None:
    """All modules, imported in one fresh interpreter, leave torch alone, and so do their dependencies."""
    modules = [module_name(path) for path in CODE if not path.as_posix().startswith(MAY_IMPORT_TORCH)]
    script = "import sys; [__import__(name) for name in sys.argv[1:]]; print('torch' in sys.modules)"
    assert run(sys.executable, "-c", script, *modules, cwd=ROOT).strip() == "False"


# --- wheel and sdist ------------------------------------------------------------------------------


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist of a clean copy of the sources, and the wheel that was built from this sdist."""
    clean, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for folder in ("transformula", *FOLDERS):
        copytree(ROOT / folder, clean / folder, symlinks=True, ignore=ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copy(ROOT / name, clean)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), cwd=clean)
    return dist


def test_wheel_holds_all_of_us_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    top_level = {Path("transformula/py.typed"), *(path for path in CODE if path.parts[0] == "transformula")}
    linked = {"transformula" / path for path in [*CODE, *DATA] if path.parts[0] != "transformula"}
    assert names == {path.as_posix() for path in top_level | linked}


def test_sdist_holds_each_folder_once(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"transformula/{path.as_posix()}" for path in DATA} <= names
    assert not [name for name in names if name.startswith(tuple(f"{folder}/" for folder in FOLDERS))]


# --- directions of imports ------------------------------------------------------------------------


@pytest.mark.parametrize("path", CODE, ids=str)
def test_import_arrows(path: Path) -> None:
    here = path.parts[0]
    allowed = ARROWS[here] | {here}
    for line, module, relative in imports(path):
        folder = folder_of(module)
        where = f"{path}:{line} imports {module}"
        assert module.split(".")[0] not in FOLDERS, f"{where}: a folder is imported relatively"
        assert folder is None or relative, f"{where}: inside the folders imports are relative"
        assert folder is None or folder in allowed, f"{where}: {here} may import {sorted(allowed)}"


@pytest.mark.parametrize("path", USERS, ids=str)
def test_users_import_the_package(path: Path) -> None:
    for line, module, relative in imports(path):
        first = module.split(".")[0]
        assert not relative, f"{path}:{line}: tests and examples import absolutely"
        assert first not in FOLDERS, f"{path}:{line}: import transformula.{first}"


def test_torch_is_imported_by_its_backend_only() -> None:
    elsewhere = [path for path in [*CODE, *USERS] if not path.as_posix().startswith(MAY_IMPORT_TORCH)]
    lines = [(path, line, module) for path in elsewhere for line, module, _ in imports(path)]
    assert [found for found in lines if found[2].split(".")[0] == "torch"] == []


# --- budgets --------------------------------------------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, public: bool = True) -> Iterator[tuple[Function, bool]]:
    """Each function of a tree, and whether it is public: not private, and in no private class or function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child, public and not child.name.startswith("_")
            yield from functions(child, public=False)
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, public and not child.name.startswith("_"))
        else:
            yield from functions(child, public)


def height(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


@pytest.mark.parametrize("path", CODE, ids=str)
def test_functions_are_short_and_explained(path: Path) -> None:
    found = list(functions(parse(path)))
    long = [(f.name, height(f)) for f, _ in found if height(f) > LONGEST_FUNCTION]
    tall = [f for f, public in found if public and height(f) >= DOCSTRING_FROM]
    bare = [f.name for f in tall if not ast.get_docstring(f)]
    assert long == [], f"functions of {path} over {LONGEST_FUNCTION} lines"
    assert bare == [], f"public functions of {path} without a docstring"


def test_files_are_short() -> None:
    length = {path.as_posix(): len((ROOT / path).read_text("utf-8").splitlines()) for path in CODE}
    long = {path for path, count in length.items() if count >= LONGEST_FILE}
    assert {path: length[path] for path in long - LONG_FILES.keys()} == {}
    assert LONG_FILES.keys() - long == set(), "these files need no exception"


# --- documents ------------------------------------------------------------------------------------

PAGES = sorted(path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_markdown_links_resolve(page: Path) -> None:
    text = (ROOT / page).read_text("utf-8")
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)", prose)
    reference = re.findall(r"^\s*\[[^\]]+\]:\s*(\S+)", prose, flags=re.MULTILINE)
    local = [link.split("#")[0] for link in inline + reference if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in local if not (ROOT / page.parent / link).exists()] == []


# Paths of one machine and addresses of one registry; written so that this line does not match itself.
PRIVATE = re.compile(
    r"(?<![\w.~-])/(?:work|root|home|Users|opt)/\w|index[-_]url|find[-_]links|pythonhosted[.]org"
)


def test_no_machine_is_named() -> None:
    folders = ("transformula", *FOLDERS, "tests", "docs", "examples", "benchmarks", ".ci")
    top_level = [path.relative_to(ROOT) for path in ROOT.iterdir() if path.is_file()]
    found = []
    for path in [*top_level, *sources(*folders, pattern="*")]:
        content = (ROOT / path).read_bytes()
        if b"\0" not in content:
            text = content.decode("utf-8", errors="replace")
            found += [f"{path}: {match.group()}" for match in PRIVATE.finditer(text)]
    assert found == []
