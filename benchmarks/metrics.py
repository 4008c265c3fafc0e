"""Every number that the benchmark prints, and which way is better."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """`key` is its name in the raw results."""

    key: str
    title: str
    unit: str
    more_is_better: bool = False


def _bulk(key: str, title: str) -> tuple[Metric, Metric]:
    return Metric(key, title, "MB/s", more_is_better=True), Metric(f"{key}_cpu", f"  CPU, {title}", "s/GB")


METRICS = (
    *_bulk("up1", "bulk up, 1 stream"),
    *_bulk("down1", "bulk down, 1 stream"),
    *_bulk("up8", "bulk up, 8 streams"),
    *_bulk("down8", "bulk down, 8 streams"),
    Metric("latency_p50", "round trip p50", "us"),
    Metric("latency_p99", "round trip p99", "us"),
    Metric("saturated_p50", "p50 beside saturated bulk", "us"),
    Metric("saturated_p99", "p99 beside saturated bulk", "us"),
    Metric("saturated_bulk", "  that bulk", "MB/s", more_is_better=True),
    Metric("paced_p50", "p50 beside 50 MB/s", "us"),
    Metric("paced_p99", "p99 beside 50 MB/s", "us"),
    Metric("connect_rate", "new connections", "1/s", more_is_better=True),
    Metric("connect_p99", "  p99 of one", "us"),
    Metric("connect_cpu", "  CPU of one", "us"),
    Metric("idle_memory", "memory, idle stream", "KiB"),
    Metric("base_memory", "  without streams", "MiB"),
)
