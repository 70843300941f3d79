"""Each broken kernel is stopped with the rule of table E that it breaks, and with code 507015."""

import pytest

SINGLE = {
    "MisalignedUb": "E-01",
    "TailLostByDataCopy": "E-02",
    "TooMuchUb": "E-03",
    "TooManyBuffers": "E-04",
    "TooManyLive": "E-05",
    "AllocWithoutFree": "E-06",
    "EnQueBeyondDepth": "E-07",
    "DeQueEmpty": "E-08",
    "FreeTwice": "E-09",
    "FreeInOtherQueue": "E-09",
    "EventIdOutOfRange": "E-10",
    "EventNotReleased": "E-10",
    "VectorBeforeLoad": "E-11",
    "StoreBeforeVector": "E-11",
    "LoadOverStore": "E-11",
    "ScalarBeforeVector": "E-11",
    "StoreBeforeScalar": "E-11",
    "FlagOfOtherPipes": "E-11",
    "WaitWithoutSet": "E-12",
    "SetTwice": "E-12",
    "SetLeftOver": "E-12",
    "TwoLoadsOneBuffer": "E-13",
    "TwoStoresOnePlace": "E-13",
    "BurstTooLong": "E-15",
    "TooMuchPadding": "E-15",
    "StoreOfUndefined": "E-16",
    "StoreOfFiller": "E-16",
    "BranchOnUndefined": "E-16",
    "ReadPastTensor": "E-17",
    "ReadPastStatedSize": "E-17",
    "WriteInput": "E-17",
    "PreloadPastTensor": "E-17",
    "MeetingWithoutMixType": "E-33",
    "MeetingOfBoth": "E-33",
    "RepeatTooLarge": "E-23",
    "MaskTooLarge": "E-24",
    "VectorPastBuffer": "E-25",
    "ShiftedOverlap": "E-27",
    "GatherBetweenElements": "E-01",
    "GatherPastTensor": "E-25",
    "GatherInPlace": "E-27",
    "GatherByUndefinedOffsets": "E-16",
    "OtherTilingClass": "E-31",
    "QueueTensorNotFreed": "E-34",
    "ScalarPastTensor": "E-36",
    "TwoPipes": "E-38",
    "AtomicOverPlainStore": "E-21",
    "AtomicOntoNothing": "E-21",
    "AtomicOfOtherType": "E-30",
    "AtomicModeLeftOn": "E-34",
    "StrideZero": "E-25",
    "LanesMisaligned": "E-01",
    "RepeatReadsResult": "E-27",
    "LaneOfUndefined": "E-16",
    "LaneLeftOut": "E-16",
    "LanePastBuffer": "E-25",
    "LanesBeforeLoad": "E-11",
    "LanesOverStore": "E-11",
    "BlocksShifted": "E-27",
    "CastModeUnknown": "E-30",
    "CompareOfPart": "E-26",
    "CompareOfRepeats": "E-26",
    "CmpMaskIntoLittle": "E-25",
    "CmpMaskMisaligned": "E-01",
    "SelectByBitsNotCompared": "E-16",
    "SelectByNoAddress": "E-16",
    "TransPartlyInPlace": "E-27",
    "TransMisaligned": "E-01",
    "TransOutsideBuffers": "E-36",
    "TransOnceWithStride": "E-25",
    "TransReadsResult": "E-27",
    "SelectOverBuffers": "E-03",
    "OutputQueueLoaded": "E-11",
    "EnQueOfBuffer": "E-09",
    "DivisionByZero": "E-37",
    "LargeLocalArray": "E-40",
}
SEVERAL = {
    "ScalarWritesShareALine": "E-18",
    "StaleScalarRead": "E-19",
    "StalePreload": "E-19",
    "ReadOfPreloaded": "E-18",
    "OverlappingShares": "E-20",
    "ReadBeforeMeeting": "E-20",
    "MeetingBeforeStoreEnds": "E-20",
    "MeetingOfSome": "E-33",
    "AtomicOfTwoKinds": "E-20",
    "FlagNotWaitedFor": "E-14",
    "FlagOfOtherPipe": "E-20",
    "FlagOfSyncAll": "E-14",
    "FlagOfSome": "E-14",
    "FlagSetTooOften": "E-14",
}
FAST = [
    "TooMuchUb",
    "AllocWithoutFree",
    "DeQueEmpty",
    "FreeTwice",
    "WaitWithoutSet",
    "ReadPastTensor",
    "WriteInput",
    "VectorPastBuffer",
    "MisalignedUb",
    "TailLostByDataCopy",
    "MeetingOfSome",
]


def assert_trapped(outcome, kernel: str, rule: str) -> None:
    assert outcome.code == 1, outcome.text
    assert outcome.text.startswith(f"507015 operator {kernel} block ")
    assert f"[{rule}]" in outcome.text
    assert " call " in outcome.text


@pytest.mark.parametrize(("kernel", "rule"), SINGLE.items())
def test_broken_kernel_is_stopped(run_case, kernel, rule):
    assert_trapped(run_case(kernel), kernel, rule)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize(("kernel", "rule"), SEVERAL.items())
def test_fault_between_cores_is_found_in_every_order(run_case, kernel, rule, seed):
    assert_trapped(run_case(kernel, blocks=4, cores=4, seed=seed), kernel, rule)


@pytest.mark.parametrize("kernel", FAST)
def test_fast_checks_keep_bounds_and_queues(run_case, kernel):
    assert_trapped(run_case(kernel, blocks=2, check="fast"), kernel, (SINGLE | SEVERAL)[kernel])


@pytest.mark.parametrize(
    ("kernel", "place"),
    [
        ("PollingForEver", "block 0 call GlobalTensor::GetValue: "),
        ("LoopWithoutCall", "block 1 call InitBuffer, then no call, at "),
    ],
)
def test_endless_kernel_is_ended(run_case, kernel, place):
    outcome = run_case(kernel, blocks=3, cores=3, timeout="0.4")
    assert outcome.code == 1, outcome.text
    assert outcome.text.startswith(f"507014 operator {kernel} {place}")
    assert "[TIMEOUT] the kernel did not end within 0.4 s (TWIN_KERNEL_TIMEOUT)" in outcome.text


def test_meeting_needs_all_blocks_resident(run_case):
    assert_trapped(run_case("Meeting", blocks=5, cores=4), "Meeting", "E-22")


def test_meeting_needs_batch_mode(run_case):
    assert_trapped(run_case("Meeting", blocks=4, cores=4, batch=False), "Meeting", "E-22")


def test_meeting_itself_is_fine(run_case):
    assert run_case("Meeting", blocks=4, cores=4).code == 0


def test_launch_without_blocks(run_case):
    outcome = run_case("AddOneQueued", blocks=0)
    assert outcome.code == 1
    assert "[E-35]" in outcome.text


def test_a_trap_names_the_block(run_case):
    outcome = run_case("OverlappingShares", blocks=3, cores=3)
    assert "GM [0x" in outcome.text
    assert "by block" in outcome.text
