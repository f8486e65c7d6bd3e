#!/usr/bin/env bash
# Builds the module and runs its tests in an environment of its own: python/test.sh [arguments of pytest].
# With ROWMILL_PROFILE=dev the module is built without optimization, which is faster for work on it.
set -euo pipefail
cd "$(dirname "$0")"

environment="${ROWMILL_VENV:-target/venv}"
[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
"$environment/bin/pip" install -q --disable-pip-version-check "maturin>=1.9,<2" \
    pytest pyarrow pandas numpy polars duckdb "sqlalchemy>=2" adbc-driver-manager mypy pandas-stubs \
    "ibis-framework>=10" pyarrow-hotfix rich

options=(--release)
[ "${ROWMILL_PROFILE:-release}" = release ] || options=()
VIRTUAL_ENV="$(cd "$environment" && pwd)" "$environment/bin/maturin" develop -q "${options[@]}"
exec "$environment/bin/python" -m pytest -q "$@"
