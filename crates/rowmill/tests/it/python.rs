//! The tests of the module for Python, where its wheel, Python and the packages of the tests are available.
//!
//! The module is a workspace of its own, which the gate does not build. The newest wheel of `python/target/wheels` is
//! tested if it is newer than the sources of the module: `cd python && maturin build --release` makes it. Packages are
//! installed once. Without any of these, the test says so and is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::source_root;

/// The packages that the tests use. A test without its package skips itself.
const PACKAGES: [&str; 6] = ["pytest", "pyarrow", "pandas", "polars", "sqlalchemy", "adbc-driver-manager"];

fn skip(what: &str) {
    #[allow(clippy::print_stderr)]
    {
        eprintln!("skipped: {what}");
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|found| found.modified()).ok()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The newest wheel, unless the sources of the module are newer.
fn wheel(module: &Path) -> Result<PathBuf, String> {
    let wheels = files_below(&module.join("target/wheels"));
    let wheels = wheels.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let newest = wheels.max_by_key(|path| modified(path)).ok_or("there is no wheel in python/target/wheels")?;
    let sources = ["src", "rowmill"].iter().flat_map(|folder| files_below(&module.join(folder)));
    let changed = sources.filter(|path| path.extension().is_some_and(|ending| ending != "pyc" && ending != "so"));
    match changed.filter_map(|path| modified(&path)).max() {
        Some(changed) if modified(&newest) < Some(changed) => {
            Err(format!("{} is older than its sources", newest.display()))
        }
        _ => Ok(newest),
    }
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// An environment of Python with the wheel and the packages of the tests.
fn environment(wheel: &Path) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-module");
    let (python, installed) = (folder.join("bin/python"), folder.join("installed"));
    if modified(&installed) > modified(wheel) {
        return Ok(python);
    }
    if !succeeds(Command::new("python3").args(["-m", "venv"]).arg(&folder)) {
        return Err("python3 cannot make an environment".to_owned());
    }
    let options = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries=1", "--timeout=10"];
    let packages = Command::new(&python).args(options).args(PACKAGES).stdin(Stdio::null()).status();
    if !packages.is_ok_and(|status| status.success()) {
        return Err("the packages of Python's tests cannot be installed".to_owned());
    }
    if !succeeds(Command::new(&python).args(options).args(["--force-reinstall", "--no-deps"]).arg(wheel)) {
        return Err(format!("{} cannot be installed", wheel.display()));
    }
    fs::write(installed, "").map_err(|error| error.to_string())?;
    Ok(python)
}

#[test]
fn the_module_for_python_passes_its_tests() {
    let module = source_root().join("python");
    let python = match wheel(&module).and_then(|wheel| environment(&wheel)) {
        Ok(python) => python,
        Err(why) => return skip(&format!("the tests of the module for Python: {why}")),
    };
    // Outside of the module's folder, whose package has no compiled part.
    let tests = fs::canonicalize(module.join("tests")).unwrap();
    let options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"];
    let run = Command::new(python).args(options).arg(&tests).current_dir(env!("CARGO_TARGET_TMPDIR")).output().unwrap();
    assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
}
