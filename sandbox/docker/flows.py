"""Connections carried over one stream of frames: the same at both of its ends. Standard library only.

A flow is one connection: a number, and a socket at either end. Its frames:

    {"flow": 7, "port": 61001}   begin (only the engine does)
    {"flow": 7}, body            bytes of it
    {"flow": 7, "more": 131072}  so many bytes have been handed on, and as many more may be sent
    {"flow": 7, "end": true}     closed at the other end

No more than a window of bytes is on its way in either direction: the flow of a slow reader holds up nobody else, and
what an end has to hold is bounded, whoever sends.
"""

import select
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.docker.frames import Frame, ProtocolError
from sandbox.wire.zmtp import Meter

WINDOW = 256 << 10
_TELL_AFTER = WINDOW // 2  # handed on, and not yet said: the sender has as much left, so that it need not wait
_READ = 1 << 16
_LATE = 4096  # frames of a flow that may come when it has ended here: a window full of small ones

Put = Callable[[dict[str, Any], bytes], None]


@dataclass(slots=True)
class _Flow:
    """end: None until it is connected. left: of the other end, not yet written. credit: bytes it takes of us."""

    number: int
    end: socket.socket | None = None
    meter: Meter | None = None
    left: bytearray = field(default_factory=bytearray)
    credit: int = WINDOW
    handed_on: int = 0
    ending: bool = False
    listens: int = 0


class Flows:
    """For one thread, which polls `poller`. put: sends a frame to the other end."""

    def __init__(self, poller: select.poll, put: Put, *, metered: bool) -> None:
        """metered: whether what comes from the other end must be ZeroMQ's, in messages of bounded size."""
        self._poller = poller
        self._put = put
        self._metered = metered
        self._flows: dict[int, _Flow] = {}
        self._by_descriptor: dict[int, _Flow] = {}
        self._may_be_idle = 0

    def __len__(self) -> int:
        return len(self._flows)

    def __contains__(self, number: object) -> bool:
        return number in self._flows

    def begin(self, number: int) -> None:
        """From now on there is such a flow, and what comes of it is kept for its socket."""
        self._flows[number] = _Flow(number, meter=Meter() if self._metered else None)
        self._may_be_idle += _LATE

    def connect(self, number: int, end: socket.socket) -> None:
        """Its socket, which is the flow's from now on; closed at once where there is no such flow any more."""
        flow = self._flows.get(number)
        if flow is None:
            end.close()
            return
        end.setblocking(False)
        flow.end = end
        self._by_descriptor[end.fileno()] = flow
        self._push(flow)

    def end(self, number: int) -> None:
        """Give it up, and say so."""
        if flow := self._flows.get(number):
            self._part(flow)

    def take(self, frame: Frame) -> None:
        """One frame of the other end. Raises ProtocolError when it is none that it may send."""
        number, more = frame.header.get("flow"), frame.header.get("more", 0)
        flow = self._flows.get(number) if type(number) is int else None
        if flow is None or not (frame.body or more or "end" in frame.header):
            # It has ended here, which the other end had not heard. Without a bound code could keep us busy with them.
            self._may_be_idle -= 1
            if self._may_be_idle < 0:
                raise ProtocolError("frames of no connection, again and again")
            return
        if type(more) is not int or not 0 <= more <= WINDOW - flow.credit:
            raise ProtocolError("more room than there is")
        flow.credit += more
        if len(flow.left) + len(frame.body) > WINDOW:
            raise ProtocolError("more of a connection than there is room for")
        if flow.meter is not None and not flow.meter.passes(frame.body):
            self._part(flow)
            return
        flow.left += frame.body
        flow.ending = flow.ending or bool(frame.header.get("end"))
        self._push(flow)

    def carries(self, descriptor: int) -> bool:
        """Whether this descriptor is the socket of a flow."""
        return descriptor in self._by_descriptor

    def move(self, descriptor: int) -> None:
        """Read and write what is possible there."""
        flow = self._by_descriptor[descriptor]
        self._push(flow)
        if flow.number in self._flows:
            self._pull(flow)

    def listen(self, *, room: bool) -> None:
        """Tell the poller what is waited for. room: whether there is room for frames on the way to the other end."""
        for descriptor, flow in self._by_descriptor.items():
            wanted = select.POLLIN if room and flow.credit and not flow.ending else 0
            wanted |= select.POLLOUT if flow.left else 0
            if wanted == flow.listens:
                continue
            if wanted:
                self._poller.register(descriptor, wanted)
            else:  # not even for a hang-up, which would be told again and again
                self._poller.unregister(descriptor)
            flow.listens = wanted

    def read_out(self) -> None:
        """Send what the sockets hold already, as far as the other end takes it."""
        for flow in list(self._by_descriptor.values()):
            while flow.number in self._flows and flow.credit and self._pull(flow):
                pass

    def close(self) -> None:
        """Close every socket; nobody is told."""
        for flow in self._by_descriptor.values():
            if flow.end is not None:
                flow.end.close()
        self._flows.clear()
        self._by_descriptor.clear()

    def _pull(self, flow: _Flow) -> bool:
        """Whether there was something."""
        if flow.end is None or flow.ending or not flow.credit:
            return False
        try:
            data = flow.end.recv(min(_READ, flow.credit))
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._part(flow)
            return False
        flow.credit -= len(data)
        self._put({"flow": flow.number}, data)
        return True

    def _push(self, flow: _Flow) -> None:
        if flow.end is not None and flow.left:
            try:
                done = flow.end.send(flow.left)
            except BlockingIOError:
                return
            except OSError:
                self._part(flow)
                return
            del flow.left[:done]
            flow.handed_on += done
            if flow.handed_on >= _TELL_AFTER and not flow.ending:
                self._put({"flow": flow.number, "more": flow.handed_on}, b"")
                flow.handed_on = 0
        if flow.ending and (not flow.left or flow.end is None):
            self._part(flow)

    def _part(self, flow: _Flow) -> None:
        del self._flows[flow.number]
        if flow.end is not None:
            if flow.listens:
                self._poller.unregister(flow.end.fileno())
            del self._by_descriptor[flow.end.fileno()]
            flow.end.close()
        if not flow.ending:
            self._put({"flow": flow.number, "end": True}, b"")
