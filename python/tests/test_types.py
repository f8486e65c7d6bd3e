"""The type stubs: they name all that the module has, and a typed program passes `mypy --strict`."""

import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent


@pytest.mark.slow
def test_a_typed_program_passes_and_runs(tmp_path):
    for module in ["mypy", "pandas", "polars", "pyarrow", "adbc_driver_manager"]:
        pytest.importorskip(module)
    from typed_sample import run

    assert run(tmp_path) == [(1, "x"), (2, "y"), (3, "z"), (4, "w")]
    options = ["--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path / "cache"), "--no-error-summary"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(FOLDER / "typed_sample.py")], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_the_stubs_name_all_that_the_modules_have(tmp_path):
    pytest.importorskip("mypy")
    # The dialect has the methods of SQLAlchemy's classes, whose stubs are SQLAlchemy's.
    allowed = tmp_path / "allowed"
    allowed.write_text("rowmill._rowmill.__all__\nrowmill.sqlalchemy.*\nrowmill.ibis.*\n")
    options = ["--ignore-disjoint-bases", "--concise", "--allowlist", str(allowed), "--ignore-unused-allowlist"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "rowmill", *options], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
