"""Statements beside other threads, and their cancellation."""

import os
import signal
import threading
import time

import pytest
import rowmill

LONG = """SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b
    WHERE a.value + b.value = 7"""


def test_ctrl_c_cancels_a_statement():
    con = rowmill.connect()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        con.execute(LONG).fetchall()
    assert time.monotonic() - begun < 20
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_other_threads_run_and_may_interrupt():
    con = rowmill.connect()
    errors = []

    def work():
        try:
            con.execute(LONG).fetchall()
        except rowmill.Error as error:
            errors.append(error.sqlstate)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.5)
    # This thread runs while the other one waits for its statement, and another connection answers.
    assert con.duplicate().execute("SELECT 1").fetchone() == (1,)
    con.interrupt()
    thread.join(20)
    assert errors == ["57014"]


def test_threads_share_a_connection():
    con = rowmill.connect()
    con.execute("CREATE TABLE t (n BIGINT)")

    def work():
        for n in range(50):
            con.execute("INSERT INTO t VALUES (?)", [n])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert con.execute("SELECT count(*) FROM t").fetchone() == (200,)
