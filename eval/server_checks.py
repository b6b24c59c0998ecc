"""What the end-to-end checks ask of any server: that it holds what was planned, and that it stops when told."""
import json
import subprocess

from server_process import Server

# Sanitizer builds are 10 to 20 times slower; a bound for hanging, not for speed.
READY_SECONDS = 120


def stopped_cleanly(server: Server) -> tuple[bool, str]:
    status = server.stop()
    reports = server.reports()
    return status == 0 and not reports, f"exit status {status} after SIGTERM, {len(reports)} reports in the log{': ' + reports[0] if reports else ''}"


def plan_matches(server: Server) -> tuple[bool, str]:
    """`quire plan` with the server's flags against what the server holds, and no allocation since it started."""
    held = server.memory_items()
    # The default pool follows from the memory that is free at the moment, so the server's own size is asked for.
    command = [str(server.binary), "plan", str(server.model), *server.flags, "--kv-cache-memory-bytes", str(held["kv_pool"]), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_SECONDS)
    if done.returncode != 0:
        return False, f"quire plan ended with status {done.returncode}: {done.stderr.strip()}"
    planned = {item["item"]: item["bytes"] for item in json.loads(done.stdout)["items"]}
    wrong = [f"{item} {planned.get(item)} planned, {held.get(item)} held" for item in sorted({*planned, *held}) if planned.get(item) != held.get(item)]
    later = server.counter("quire:device_allocations_after_start_total")
    return not wrong and later == 0, f"{len(planned)} items, {sum(planned.values())} bytes; differences: {wrong or 'none'}; {later:.0f} allocations after start"
