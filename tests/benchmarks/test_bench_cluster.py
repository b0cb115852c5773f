import pytest

from benchmarks import bench_cluster

pytest.importorskip("distributed")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_quick_run_agrees_with_one_process(capsys):
    line = ["--rows", "4000", "--bags", "40", "--workers", "1", "--landmarks", "6"]
    assert bench_cluster.main(line) == 0
    printed = capsys.readouterr().out
    assert "1 workers" in printed and "NO" not in printed
