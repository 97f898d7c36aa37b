"""Client of `nexusform` as a program.

It sends arguments, directory, environment and files to the process at the socket of its first
argument (commands.py in the same directory), and exits like the command.

python -I -S tests/command_client.py SOCKET WORD...
"""

# `socket`, `signal` and `typing` take as long as the start of Python.
import _signal
import _socket
import os
import struct
import sys


def receive_number(connection: _socket.socket) -> int:
    """Return the next number from the other process."""
    return int(struct.unpack("i", connection.recv(4, _socket.MSG_WAITALL))[0])


def main() -> None:
    """Run the command; never return."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(sys.argv[1])
    words = [os.fsencode(word) for word in sys.argv[2:]]
    environment = [name + b"=" + value for name, value in os.environb.items()]
    task = b"\0".join((b"%d" % len(words), os.getcwdb(), *words, *environment))  # noqa: PTH109 - no pathlib here
    files = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("3i", 0, 1, 2))]
    connection.sendmsg([struct.pack("i", len(task))], files)
    connection.sendall(task)
    command = receive_number(connection)
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, lambda heard, _frame: os.kill(command, heard))
    code = receive_number(connection)
    if code < 0:
        _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
