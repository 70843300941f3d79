"""Streams and events of libascendcl: order, real asynchrony, failure, exit."""

from __future__ import annotations

import pytest

from conftest import Scenario

pytestmark = pytest.mark.twin


def test_tasks_of_a_stream_run_in_order_and_off_the_calling_thread(scenario: Scenario) -> None:
    scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        s, seen, threads = stream(), [], set()
        def task(i):
            return lambda: (seen.append(i), threads.add(threading.get_native_id())) and None
        for i in range(5000):  # beyond the queue's bound of 4096
            submit(s, task(i))
        call("aclrtSynchronizeStream", s)
        assert seen == list(range(5000))
        assert len(threads) == 1 and threading.get_native_id() not in threads
    """)


def test_two_streams_overlap_and_one_does_not(scenario: Scenario) -> None:
    # A pair of tasks that wait for each other can only end when both run at the same time.
    scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        a, b = stream(), stream()
        meeting = threading.Barrier(2)
        def meet():
            try:
                meeting.wait(20)
            except threading.BrokenBarrierError:
                return 500000
        submit(a, meet), submit(b, meet)
        call("aclrtSynchronizeStream", a), call("aclrtSynchronizeStream", b)

        meeting = threading.Barrier(2)
        def brief():
            try:
                meeting.wait(1)
            except threading.BrokenBarrierError:
                return 500000
        submit(a, brief), submit(a, brief)
        refused(500000, "aclrtSynchronizeStream", a)
    """)


def test_query_tells_whether_the_work_is_done(scenario: Scenario) -> None:
    scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        s, e, gate = stream(), event(), threading.Event()
        assert status("aclrtQueryEventStatus", e) == 0
        submit(s, lambda: gate.wait(60) and None)
        call("aclrtRecordEvent", e, s)
        assert (status("aclrtStreamQuery", s), status("aclrtQueryEventStatus", e)) == (1, 0)
        text = refused(TIMEOUT, "aclrtSynchronizeStreamWithTimeout", s, 50)
        assert "aclrtSynchronizeStreamWithTimeout" in text and "50 ms" in text
        refused(507006, "aclrtEventElapsedTime", ctypes.byref(ctypes.c_float()), e, e)
        gate.set()
        call("aclrtSynchronizeEvent", e)
        call("aclrtSynchronizeStream", s)
        assert (status("aclrtStreamQuery", s), status("aclrtQueryEventStatus", e)) == (0, 1)
    """)


def test_an_event_and_its_stream_are_done_together(scenario: Scenario) -> None:
    # Many rounds: seen from the host there is no moment between the last record and the end of the stream's work.
    scenario("""
        from acl import *
        call("aclrtSetDevice", 0)
        s, e = stream(), event()
        for _ in range(3000):
            call("aclrtRecordEvent", e, s)
            call("aclrtSynchronizeEvent", e)
            assert status("aclrtStreamQuery", s) == 0
            call("aclrtRecordEvent", e, s)
            call("aclrtSynchronizeStream", s)
            assert status("aclrtQueryEventStatus", e) == 1
    """)


def test_a_stream_waits_for_an_event_of_another(scenario: Scenario) -> None:
    scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        a, b, e, gate, seen = stream(), stream(), event(), threading.Event(), []
        submit(a, lambda: (gate.wait(60), seen.append("a")) and None)
        call("aclrtRecordEvent", e, a)
        call("aclrtStreamWaitEvent", b, e)
        submit(b, lambda: seen.append("b"))
        refused(TIMEOUT, "aclrtSynchronizeStreamWithTimeout", b, 100)
        assert seen == [] and status("aclrtQueryEventWaitStatus", e) == 1
        gate.set()
        call("aclrtSynchronizeStream", b)
        assert seen == ["a", "b"] and status("aclrtQueryEventWaitStatus", e) == 0
    """)


def test_a_wait_is_for_the_record_before_it(scenario: Scenario) -> None:
    # The event is recorded again, behind a closed gate, after the wait was asked for: the wait must not see that.
    scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        a, b, e, gate = stream(), stream(), event(), threading.Event()
        call("aclrtStreamWaitEvent", b, e)  # never recorded: nothing to wait for
        call("aclrtRecordEvent", e, a)
        call("aclrtStreamWaitEvent", b, e)
        submit(a, lambda: gate.wait(60) and None)
        call("aclrtRecordEvent", e, a)
        call("aclrtSynchronizeStreamWithTimeout", b, 20000)
        gate.set()
        call("aclrtSynchronizeStream", a)
    """)


def test_elapsed_time_spans_the_work_between_two_records(scenario: Scenario) -> None:
    scenario("""
        import time
        from acl import *
        call("aclrtSetDevice", 0)
        s, start, end, ms = stream(), event(), event(), ctypes.c_float()
        call("aclrtRecordEvent", start, s)
        submit(s, lambda: time.sleep(0.25))
        call("aclrtRecordEvent", end, s)
        call("aclrtSynchronizeStream", s)
        call("aclrtEventElapsedTime", ctypes.byref(ms), start, end)
        assert 250 <= ms.value < 5000, ms.value
        plain = create("aclrtCreateEventExWithFlag", 1)
        call("aclrtRecordEvent", plain, s)
        call("aclrtSynchronizeStream", s)
        assert "ACL_EVENT_TIME_LINE" in refused(107006, "aclrtEventElapsedTime", ctypes.byref(ms), start, plain)
    """)


def test_stop_on_failure(scenario: Scenario) -> None:
    done = scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        s, e, other, seen = stream(), event(), stream(), []
        for handle in (s, other):
            call("aclrtSetStreamFailureMode", handle, ctypes.c_uint64(1))
        gate = threading.Event()
        def fail():
            gate.wait(60)
            lib.twinSetErrorMessage(b"core 7 read past the end")
            return 507015
        submit(s, lambda: seen.append("before"))
        submit(s, fail, "bad_kernel")
        submit(s, lambda: seen.append("after"))
        call("aclrtRecordEvent", e, s)
        call("aclrtStreamWaitEvent", other, e)
        submit(other, lambda: seen.append("dependent"))
        gate.set()
        for _ in range(2):  # the stream stays failed
            text = refused(507015, "aclrtSynchronizeStream", s)
            assert "bad_kernel" in text and "core 7 read past the end" in text, text
        refused(507015, "aclrtSynchronizeStream", other)
        refused(507015, "aclrtSynchronizeEvent", e)
        refused(507015, "aclrtSynchronizeDevice")
        assert seen == ["before"], seen
    """)
    assert "bad_kernel" in done.stderr  # the log names it too


def test_continue_on_failure_reports_once(scenario: Scenario) -> None:
    scenario("""
        from acl import *
        call("aclrtSetDevice", 0)
        s, seen = stream(), []
        submit(s, lambda: 507015, "bad_kernel")
        submit(s, lambda: seen.append("after"))
        refused(507015, "aclrtSynchronizeStream", s)
        assert seen == ["after"]
        call("aclrtSynchronizeStream", s)
    """)


def test_dropping_happens_once_whether_run_or_skipped(scenario: Scenario) -> None:
    scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        s, dropped = stream(), []
        drop = DROP(lambda number: dropped.append(number))
        call("aclrtSetStreamFailureMode", s, ctypes.c_uint64(1))
        gate = threading.Event()
        tasks = [TASK(lambda _: 0), TASK(lambda _: gate.wait(60) and 500000), TASK(lambda _: 0)]
        for number, task in enumerate(tasks, 1):
            call("twinStreamSubmit", s, b"t", task, drop, ctypes.c_void_p(number))
        gate.set()
        refused(500000, "aclrtSynchronizeStream", s)
        assert dropped == [1, 2, 3]
        refused(107017, "twinStreamSubmit", ctypes.c_void_p(0xdead0), b"t", tasks[0], drop, ctypes.c_void_p(4))
        assert dropped == [1, 2, 3, 4]
    """)


def test_destroyed_and_foreign_handles_are_refused(scenario: Scenario) -> None:
    scenario("""
        from acl import *
        call("aclrtSetDevice", 0)
        s, e = stream(), event()
        call("aclrtDestroyStream", s), call("aclrtDestroyEvent", e)
        assert "aclrtSynchronizeStream" in refused(107017, "aclrtSynchronizeStream", s)
        refused(107017, "aclrtDestroyStreamForce", s)
        refused(107017, "aclrtSynchronizeEvent", e)
        s = stream()
        call("aclrtSetDevice", 1)
        assert "device 0" in refused(STREAM_CONTEXT, "aclrtSynchronizeStream", s)
    """)


def test_forced_destruction_drops_the_queue_and_frees_who_waits(scenario: Scenario) -> None:
    scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        a, b, e, gate, started, seen = stream(), stream(), event(), threading.Event(), threading.Event(), []
        submit(a, lambda: (started.set(), gate.wait(60)) and None)
        submit(a, lambda: seen.append("queued"))
        call("aclrtRecordEvent", e, a)
        call("aclrtSetStreamFailureMode", b, ctypes.c_uint64(1))
        call("aclrtStreamWaitEvent", b, e)
        submit(b, lambda: seen.append("dependent"))
        started.wait(60)
        threading.Timer(0.3, gate.set).start()
        call("aclrtDestroyStreamForce", a)
        refused(STREAM_CONTEXT, "aclrtSynchronizeStream", b)
        assert seen == []
    """)


def test_exit_with_work_in_flight_keeps_the_exit_code(scenario: Scenario) -> None:
    scenario(
        """
        import sys
        from acl import *
        call("aclInit", None)
        call("aclrtSetDevice", 0)
        s = stream()
        sleep = ctypes.CDLL(None).usleep  # a task in C: Python code must not run in a thread during exit
        for _ in range(50):
            call("twinStreamSubmit", s, b"nap", ctypes.cast(sleep, TASK), NO_DROP, ctypes.c_void_p(20000))
        sys.exit(3)
        """,
        code=3,
    )


def test_python_may_end_a_worker_at_exit(scenario: Scenario) -> None:
    # The task returns to Python code after the interpreter shut down: Python then ends that thread.
    scenario("""
        import threading, time
        from acl import *
        call("aclrtSetDevice", 0)
        s, started = stream(), threading.Event()
        def task():
            started.set()
            time.sleep(1)
        submit(s, task)
        started.wait(60)
    """)


def test_a_forked_child_is_refused_and_does_not_hang(scenario: Scenario) -> None:
    # The child is forked while worker threads hold work, so inherited locks may be locked.
    scenario("""
        import os, signal, threading
        from acl import *
        call("aclInit", None)
        call("aclrtSetDevice", 0)
        s, p, gate = stream(), malloc(64), threading.Event()
        submit(s, lambda: gate.wait(60) and None)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            assert "forked" in refused(500003, "aclrtSynchronizeStream", s)
            refused(500003, "aclrtMalloc", ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(8), 0)
            call("aclrtFree", p), call("aclrtDestroyStreamForce", s), call("aclrtResetDevice", 0), call("aclFinalize")
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        gate.set()
        call("aclrtSynchronizeStream", s)
    """)


def test_a_child_forked_before_first_use_may_use_the_device(scenario: Scenario) -> None:
    scenario("""
        import os
        from acl import *
        call("aclrtGetDeviceCount", ctypes.byref(ctypes.c_uint32()))
        child = os.fork()
        if child == 0:
            call("aclInit", None), call("aclrtSetDevice", 1)
            s, seen = stream(), []
            submit(s, lambda: seen.append(1))
            call("aclrtSynchronizeStream", s)
            os._exit(7 if seen == [1] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """)
