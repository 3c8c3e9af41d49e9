"""Flows: connections carried over one stream of frames, with the same code at both ends. Standard library only.

A flow is one connection. It has a number, and a socket at either end. Its frames are:

    {"flow": 7, "port": 61001}   begin the flow (only the host side sends this)
    {"flow": 7}, body            data
    {"flow": 7, "more": 131072}  this many bytes have been forwarded, so as many more may be sent
    {"flow": 7, "end": true}     the sender has closed its socket

At most one window of bytes is in transit in each direction. A slow reader therefore does not delay the other flows, and
the buffers at each end are limited.
"""

import select
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.docker.frames import Frame, ProtocolError
from sandbox.wire.zmtp import Meter

WINDOW = 256 << 10
_ACKNOWLEDGED_AFTER = WINDOW // 2  # bytes forwarded; until then the sender can use the other half of the window
_READ = 1 << 16
_LATE = 4096  # maximum number of frames per flow that may arrive after this end has closed the flow

Put = Callable[[dict[str, Any], bytes], None]


@dataclass(slots=True)
class _FlowState:
    """One connection.

    Attributes:
        end: The socket at this end; None until it is connected.
        left: Data received from the other end and not yet written.
        credit: Bytes that the other end is ready to receive.
        handed_on: Bytes written since the last acknowledgement.
        ending: Whether the flow ends once `left` is written.
        listens: The events that the poller watches for.
    """

    number: int
    end: socket.socket | None = None
    meter: Meter | None = None
    left: bytearray = field(default_factory=bytearray)
    credit: int = WINDOW
    handed_on: int = 0
    ending: bool = False
    listens: int = 0


class Flows:
    """The flows of one thread, which polls `poller`. `put` sends a frame to the other end."""

    def __init__(self, poller: select.poll, put: Put, *, metered: bool) -> None:
        """Create an empty set of flows.

        Args:
            poller: The poller of the thread.
            put: Sends a frame to the other end.
            metered: Whether the other end must send ZeroMQ messages of bounded size.
        """
        self._poller = poller
        self._put = put
        self._metered = metered
        self._flows: dict[int, _FlowState] = {}
        self._by_descriptor: dict[int, _FlowState] = {}
        self._may_be_idle = 0

    def __len__(self) -> int:
        return len(self._flows)

    def __contains__(self, number: object) -> bool:
        return number in self._flows

    def begin(self, number: int) -> None:
        """Create a flow with this number. Data that arrives for it is kept until the flow has a socket."""
        self._flows[number] = _FlowState(number, meter=Meter() if self._metered else None)
        self._may_be_idle += _LATE

    def connect(self, number: int, end: socket.socket) -> None:
        """Give the flow its socket. The flow then owns the socket. If the flow has already ended, close the socket."""
        flow = self._flows.get(number)
        if flow is None:
            end.close()
            return
        end.setblocking(False)
        flow.end = end
        self._by_descriptor[end.fileno()] = flow
        self._push(flow)

    def end(self, number: int) -> None:
        """End a flow and notify the other end."""
        if flow := self._flows.get(number):
            self._part(flow)

    def take(self, frame: Frame) -> None:
        """Process a frame from the other end.

        Raises:
            ProtocolError: The other end must not send this frame.
        """
        number, more = frame.header.get("flow"), frame.header.get("more", 0)
        flow = self._flows.get(number) if type(number) is int else None
        if flow is None or not (frame.body or more or "end" in frame.header):
            # This end has closed the flow, and the other end does not know it yet. Without a limit, hostile code could
            # keep this end busy.
            self._may_be_idle -= 1
            if self._may_be_idle < 0:
                raise ProtocolError("too many frames for connections that have ended")
            return
        if type(more) is not int or not 0 <= more <= WINDOW - flow.credit:
            raise ProtocolError("more credit than one window")
        flow.credit += more
        if len(flow.left) + len(frame.body) > WINDOW:
            raise ProtocolError("more data for a connection than its window")
        if flow.meter is not None and not flow.meter.passes(frame.body):
            self._part(flow)
            return
        flow.left += frame.body
        flow.ending = flow.ending or bool(frame.header.get("end"))
        self._push(flow)

    def carries(self, descriptor: int) -> bool:
        """Return whether this descriptor is the socket of a flow."""
        return descriptor in self._by_descriptor

    def move(self, descriptor: int) -> None:
        """Read and write as much as this descriptor allows without blocking."""
        flow = self._by_descriptor[descriptor]
        self._push(flow)
        if flow.number in self._flows:
            self._pull(flow)

    def listen(self, *, room: bool) -> None:
        """Register each socket with the poller for the events that can be handled now.

        Args:
            room: Whether frames to the other end still fit into its buffer.
        """
        for descriptor, flow in self._by_descriptor.items():
            wanted = select.POLLIN if room and flow.credit and not flow.ending else 0
            wanted |= select.POLLOUT if flow.left else 0
            if wanted == flow.listens:
                continue
            if wanted:
                self._poller.register(descriptor, wanted)
            else:  # unregistered, because a hang-up would be reported again and again even with no events requested
                self._poller.unregister(descriptor)
            flow.listens = wanted

    def read_out(self) -> None:
        """Read the data that has already arrived at the sockets, and send as much as the other end accepts."""
        for flow in list(self._by_descriptor.values()):
            while flow.number in self._flows and flow.credit and self._pull(flow):
                pass

    def close(self) -> None:
        """Close every socket without notifying the other end."""
        for flow in self._by_descriptor.values():
            if flow.end is not None:
                flow.end.close()
        self._flows.clear()
        self._by_descriptor.clear()

    def _pull(self, flow: _FlowState) -> bool:
        """Read from the socket; return whether there was data."""
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

    def _push(self, flow: _FlowState) -> None:
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
            if flow.handed_on >= _ACKNOWLEDGED_AFTER and not flow.ending:
                self._put({"flow": flow.number, "more": flow.handed_on}, b"")
                flow.handed_on = 0
        if flow.ending and (not flow.left or flow.end is None):
            self._part(flow)

    def _part(self, flow: _FlowState) -> None:
        del self._flows[flow.number]
        if flow.end is not None:
            if flow.listens:
                self._poller.unregister(flow.end.fileno())
            del self._by_descriptor[flow.end.fileno()]
            flow.end.close()
        if not flow.ending:
            self._put({"flow": flow.number, "end": True}, b"")
