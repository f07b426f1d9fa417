"""What is in deploy/ fits together: rules that promtool accepts, metrics and panels that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from unstuck.show import metrics

DEPLOY = Path(__file__).parents[3] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "unstuck-jobs.json").read_text())
NAMES = {metric.name for metric in metrics.ALL}


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs the package prometheus")
@pytest.mark.parametrize("what", ["test rules alerts-test.yml", "check config prometheus.yml"])
def test_promtool_accepts_rules_and_configuration(what: str):
    done = subprocess.run(
        ["promtool", *what.split()],
        cwd=DEPLOY / "prometheus",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_dashboard_ask_for_metrics_that_exist():
    texts = [json.dumps(DASHBOARD), (DEPLOY / "prometheus" / "unstuck-alerts.yml").read_text()]
    for text in texts:
        asked = set(re.findall(r"\bunstuck_[a-z_]+", text))
        assert asked
        assert asked <= NAMES


def test_panels_do_not_overlap_and_have_queries():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + dx, place["y"] + dy)
            for dx in range(place["w"])
            for dy in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        assert panel["targets"]
        taken |= cells


def test_grafanas_own_types_know_every_field():
    """The SDK is generated from Grafana's schema: what it does not know, it drops."""
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    read = Dashboard.from_json(DASHBOARD)
    written = json.loads(json.dumps(read.to_json(), default=lambda one: one.to_json()))
    assert lost(DASHBOARD, written, "") == []


def lost(before: Any, after: Any, place: str) -> list[str]:
    if isinstance(before, dict):
        found = [f"{place}.{key}" for key in before if key not in after]
        shared = (key for key in before if key in after)
        return found + [
            one for key in shared for one in lost(before[key], after[key], f"{place}.{key}")
        ]
    if isinstance(before, list):
        pairs = enumerate(zip(before, after, strict=True))
        return [one for n, (a, b) in pairs for one in lost(a, b, f"{place}[{n}]")]
    return [] if before == after else [place]
