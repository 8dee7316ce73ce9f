"""Where the commands of a walk run: a shell of this machine, or one at the serial console of a virtual machine."""
import base64
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

from steps import Wrong


class Local:
    """A shell in the namespace that this program itself runs in."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, script, limit_s=900):
        # A file, not a pipe: what a block leaves in the background would keep that open.
        with tempfile.TemporaryFile() as said:
            try:
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.folder, stdin=subprocess.DEVNULL,
                                      timeout=limit_s, stdout=said, stderr=subprocess.STDOUT, check=False)
            except subprocess.TimeoutExpired as late:
                raise Wrong(f"not done after {limit_s} s") from late
            said.seek(0)
            return done.returncode, said.read().decode(errors="replace")

    def write(self, path, text):
        pathlib.Path(path).write_text(text, encoding="utf-8")


class Console:
    """A virtual machine: QEMU's input and output are its serial console."""

    def __init__(self, script, folder, log):
        self.log = open(log, "ab")
        self.process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=folder, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.seen = ""
        self.changed = threading.Condition()
        self.count = 0
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while data := os.read(self.process.stdout.fileno(), 65536):
            self.log.write(data)
            self.log.flush()
            with self.changed:
                self.seen += data.decode(errors="replace").replace("\r", "")
                self.changed.notify()
        with self.changed:
            self.changed.notify()

    def wait(self, pattern, limit_s):
        """What came up to and with `pattern`, which is gone then, and the match."""
        until = time.monotonic() + limit_s
        with self.changed:
            while not (found := re.search(pattern, self.seen)):
                left = until - time.monotonic()
                if self.process.poll() is not None:
                    raise Wrong(f"the machine ended with {self.process.returncode}: {self.seen[-2000:]}")
                if left <= 0:
                    raise Wrong(f"the machine did not say {pattern!r} in {limit_s} s, but: {self.seen[-2000:]}")
                self.changed.wait(min(left, 1))
            self.seen = self.seen[found.end():]
        return found

    def send(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def log_in(self, limit_s=400):
        self.wait(r"login: ", limit_s)
        self.send("root\n")
        self.wait(r"# ", 60)
        # No editing of lines, and nothing is shown that was typed. The word is put together, so that its echo is not taken for it.
        self.send("stty -echo; export PS1= PS2= LC_ALL=C.UTF-8; exec bash --noediting --norc --noprofile\n")
        self.send("cd /root; echo lis''tening\n")
        self.wait(r"listening\n", 60)

    def write(self, path, text):
        self.send(f"base64 -d > {path} <<TYPED\n{base64.encodebytes(text.encode()).decode()}TYPED\n")

    def run(self, script, limit_s=900):
        self.count += 1
        self.write("/root/.step", script)
        self.send("bash -euo pipefail /root/.step > /root/.said 2>&1 < /dev/null; "
                  f"status=$?; echo; echo BEGIN-$((0+{self.count})); cat /root/.said; echo; echo END-$((0+{self.count})) $status\n")
        try:
            self.wait(rf"BEGIN-{self.count}\n", limit_s)
        except Wrong as late:
            self.send("\x03\n; cat /root/.said; ps ax; echo SO-''FAR\n")
            self.wait("SO-FAR", 60)
            raise Wrong(f"not done after {limit_s} s, and what it said and ran so far is at the end of the console's log") from late
        found = self.wait(rf"(?s)^(.*?)\nEND-{self.count} (\d+)\n", 60)
        return int(found[2]), found[1]

    def leave(self, script):
        """Runs what takes the machine away from this shell."""
        self.write("/root/.step", script)
        self.send("bash -euo pipefail /root/.step < /dev/null\n")

    def ended(self, limit_s=180):
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired as late:
            raise Wrong(f"the machine is not off after {limit_s} s: {self.seen[-1000:]}") from late

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()
