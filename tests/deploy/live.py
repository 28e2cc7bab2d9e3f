"""A server, load on it, and a Prometheus that scrapes it: processes of this test, on free loopback ports."""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import queries

PATIENCE_S = 60


class Failure(Exception):
    pass


def eventually(what, function):
    """What `function` returns when that is first something."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = function()
        if value:
            return value
        time.sleep(0.1)
    raise Failure(f"waited {PATIENCE_S} s in vain for {what}")


@contextlib.contextmanager
def process(arguments, log):
    with open(log, "w", encoding="utf-8") as output:
        running = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def from_log(running, log, pattern):
    """The first group of `pattern` in a log, once it is there."""

    def look():
        if running.poll() is not None:
            raise Failure(f"{running.args[0]} ended:\n{log.read_text()}")
        return re.search(pattern, log.read_text())

    return eventually(f"'{pattern}' in {log}", look).group(1)


class Server:
    def __init__(self, stack, programs, folder, arguments):
        self.programs = pathlib.Path(programs)
        log = folder / "server.log"
        command = [self.programs / "widelane-server", "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"]
        running = stack.enter_context(process([*map(str, command), *arguments], log))
        self.address = from_log(running, log, r"serving gRPC on (\S+)")
        self.http_address = from_log(running, log, r"serving HTTP on (\S+)")
        from_log(running, log, r"(ready): ")

    def bench(self, *arguments):
        """The report of `widelane bench server`; its exit code does not matter."""
        command = [self.programs / "widelane", "bench", "server", "--address", self.address, "--json", "-"]
        done = subprocess.run([*map(str, command), *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
        if not done.stdout:
            raise Failure(done.stderr)
        return json.loads(done.stdout)


class Prometheus:
    """The real one, with deploy/prometheus' own files but for address and intervals."""

    def __init__(self, stack, folder, target):
        for file in ("rules.yml", "alerts.yml"):
            shutil.copy(queries.PROMETHEUS / file, folder)
        config = (queries.PROMETHEUS / "prometheus.yml").read_text()
        config = re.sub(r"_interval: \d+s", "_interval: 1s", config).replace("widelane:8601", target)
        (folder / "prometheus.yml").write_text(config)
        log = folder / "prometheus.log"
        command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        running = stack.enter_context(process([*command, "--web.listen-address=127.0.0.1:0"], log))
        self.url = "http://" + from_log(running, log, r'"Listening on" .*?address=(\S+)')
        # Until then it refuses queries.
        from_log(running, log, r"(Server is ready to receive web requests)")
        self.wait_for_scrape()

    def get(self, path, **parameters):
        try:
            url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise Failure(f"{parameters}: {error.read().decode()}") from error

    def query(self, expr):
        """[(labels, value)] of an instant query."""
        return [(each["metric"], float(each["value"][1])) for each in self.get("query", query=expr)["result"]]

    def value(self, expr):
        result = self.query(expr)
        if len(result) != 1:
            raise Failure(f"{expr} has {len(result)} values")
        return result[0][1]

    def wait_for_scrape(self):
        """Until what the server counts now has been scraped."""
        now = time.time()

        def scraped():
            result = self.query('timestamp(up{job="widelane"}) and up == 1')
            return result and result[0][1] > now

        eventually("a scrape", scraped)


def get(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_S) as reply:
        return reply.read()
