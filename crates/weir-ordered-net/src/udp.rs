//! A socket for datagrams, with many of them in one call of the system where it has such calls.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::outbox::{Outbox, SEGMENTS_MAX, Segments};
use crate::wire::DATAGRAM_BYTES;

/// Bytes that are received into one buffer: datagrams that the kernel has joined. Beginnings of buffers that were a power of two apart would share
/// the same few lines of the processor's caches.
const RECEIVED_BYTES: usize = (64 << 10) + 320;
/// Wish for the socket's buffers, which the system may lower.
const SOCKET_BYTES: usize = 8 << 20;

/// Counts of datagrams and system calls of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    pub received: u64,
    pub receive_calls: u64,
    pub sent: u64,
    pub send_calls: u64,
    /// Datagrams that the system has not taken.
    pub refused: u64,
}

/// A socket that is never waited for.
pub struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    buffer: Vec<u8>,
    is_readable: bool,
    pub calls: Calls,
}

/// Turns off what `quinn-udp` turns on: the kernel writes the address to which a datagram has come, and its class, behind each one, and nothing here reads
/// them. A sequencer stamps 2% more packets without. An error is no problem: the socket works as well with them.
#[cfg(target_os = "linux")]
fn forgo_ancillary_data(socket: &UdpSocket) {
    use nix::sys::socket::{setsockopt, sockopt};

    let _ = setsockopt(socket, sockopt::Ipv4PacketInfo, &false);
    let _ = setsockopt(socket, sockopt::IpRecvTos, &false);
    let _ = setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &false);
    let _ = setsockopt(socket, sockopt::Ipv6RecvTClass, &false);
}

#[cfg(not(target_os = "linux"))]
fn forgo_ancillary_data(_: &UdpSocket) {}

impl Calls {
    pub fn since(&self, before: &Calls) -> Calls {
        Calls {
            received: self.received - before.received,
            receive_calls: self.receive_calls - before.receive_calls,
            sent: self.sent - before.sent,
            send_calls: self.send_calls - before.send_calls,
            refused: self.refused - before.refused,
        }
    }
}

impl Datagrams {
    /// # Errors
    /// The system's.
    pub fn bind(address: SocketAddr) -> io::Result<Datagrams> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        forgo_ancillary_data(&socket);
        // Smaller buffers lose more datagrams, and nothing else.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BYTES);
        let buffer = vec![0; RECEIVED_BYTES * BATCH_SIZE];
        Ok(Datagrams { socket, state, buffer, is_readable: true, calls: Calls::default() })
    }

    /// # Errors
    /// The system's.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE)
    }

    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// There is more to receive.
    pub fn on_readable(&mut self) {
        self.is_readable = true;
    }

    /// Returns whether there may be something to receive.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Receives a batch of datagrams, if there is one.
    pub fn receive(&mut self, mut each: impl FnMut(SocketAddr, &[u8])) {
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut buffers: Vec<_> = self.buffer.chunks_mut(RECEIVED_BYTES).map(IoSliceMut::new).collect();
        let count = match self.state.recv(UdpSockRef::from(&self.socket), &mut buffers, &mut meta) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            Err(error) => {
                // An error of the network concerns a datagram that was sent, and says that there may be more to receive.
                self.is_readable = error.kind() != ErrorKind::WouldBlock;
                return;
            }
        };
        self.calls.receive_calls += 1;
        for (received, buffer) in meta[..count].iter().zip(&buffers) {
            for datagram in buffer[..received.len].chunks(received.stride.max(1)) {
                self.calls.received += 1;
                each(received.addr, datagram);
            }
        }
    }

    /// Sends everything. What the system does not take now is lost.
    pub fn send(&mut self, outbox: &mut Outbox) {
        outbox.take_unpacked(|datagrams| self.send_single(datagrams));
        outbox.take(|all| {
            let (mut single, mut several) = (Vec::new(), Vec::new());
            let can_segment = self.state.max_gso_segments() >= SEGMENTS_MAX;
            for segments in all {
                if segments.bytes.len() > DATAGRAM_BYTES && can_segment {
                    several.push(segments);
                } else {
                    single.extend(segments.bytes.chunks(DATAGRAM_BYTES).map(|bytes| (segments.to, bytes)));
                }
            }
            several.into_iter().for_each(|segments| self.send_segments(segments));
            self.send_single(&single);
        });
    }

    /// Sends many datagrams to one destination.
    fn send_segments(&mut self, Segments { to, bytes, .. }: &Segments) {
        for part in bytes.chunks(SEGMENTS_MAX * DATAGRAM_BYTES) {
            self.transmit(*to, part, part.len().div_ceil(DATAGRAM_BYTES));
        }
    }

    fn transmit(&mut self, destination: SocketAddr, contents: &[u8], datagrams: usize) {
        let segment_size = (datagrams > 1).then_some(DATAGRAM_BYTES);
        let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
        self.calls.send_calls += 1;
        match self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
            Ok(()) => self.calls.sent += datagrams as u64,
            Err(_) => self.calls.refused += datagrams as u64,
        }
    }

    /// Sends datagrams to many destinations.
    #[cfg(target_os = "linux")]
    pub fn send_single(&mut self, datagrams: &[(SocketAddr, &[u8])]) {
        use rustix::net::{
            MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, addr::SocketAddrArg, sendmmsg,
        };

        if let [(to, bytes)] = datagrams {
            return self.transmit(*to, bytes, 1);
        }
        let addresses: Vec<SocketAddrAny> = datagrams.iter().map(|(to, _)| to.as_any()).collect();
        let slices: Vec<_> = datagrams.iter().map(|(_, bytes)| [io::IoSlice::new(bytes)]).collect();
        let mut controls: Vec<_> = datagrams.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let each = addresses.iter().zip(&slices).zip(&mut controls);
        let mut messages: Vec<_> =
            each.map(|((to, bytes), control)| MMsgHdr::new_with_addr(to, bytes, control)).collect();
        let mut rest = &mut messages[..];
        while !rest.is_empty() {
            self.calls.send_calls += 1;
            // An error is one of the first datagram.
            let taken = match sendmmsg(&self.socket, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.calls.sent += sent as u64;
                    sent.max(1)
                }
                Err(rustix::io::Errno::INTR) => 0,
                Err(_) => {
                    self.calls.refused += 1;
                    1
                }
            };
            rest = &mut rest[taken..];
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn send_single(&mut self, datagrams: &[(SocketAddr, &[u8])]) {
        datagrams.iter().for_each(|(to, bytes)| self.transmit(*to, bytes, 1));
    }
}
