//! What goes wrong.

use std::time::Duration;

use super::facts::LinkNo;
use super::link::{Piece, There};
use super::plan::{Fault, Impostor};
use super::wire::Frame;
use super::world::{Wake, World};

/// What an impostor says that knows how to begin.
const CHALLENGE: &[u8] = b"sha256 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n";

impl World {
    /// Whether there was anything that it could strike.
    pub(super) fn strike(&mut self, fault: Fault) -> bool {
        let (now, kind) = (self.now, fault.kind());
        let is_served = self.host.server.is_some();
        let has_struck = match fault {
            Fault::Stall { client, link, is_up, span } => self.on_link(client, link, |world, link| {
                world.stall(link, is_up, span);
            }),
            Fault::Narrow { client, link, capacity } => self.on_link(client, link, |world, link| {
                world.links[link].up.capacity = capacity;
                world.links[link].down.capacity = capacity;
            }),
            Fault::Cut { client, link } => self.on_link(client, link, Self::cut),
            Fault::ResetAfterData { client, link } => self.on_link(client, link, |world, link| {
                world.push_up(link, Piece::Reset);
                world.push_down(link, Piece::Reset);
            }),
            Fault::HalfOpen { client, link, is_server_first, span } => {
                self.on_link(client, link, |world, link| {
                    world.links[link].up.kill();
                    world.links[link].down.kill();
                    world.wake_at(now, Wake::Lost { link, is_server: is_server_first });
                    world.wake_at(now + span, Wake::Lost { link, is_server: !is_server_first });
                })
            }
            Fault::HalfClose { client, link, is_up } => self.on_link(client, link, |world, link| {
                if is_up {
                    world.push_up(link, Piece::End);
                } else {
                    world.push_down(link, Piece::End);
                }
            }),
            // It is counted when there is a write.
            Fault::FailWrite { client, link, arrives, is_lost } => {
                return self.on_link(client, link, |world, link| {
                    world.links[link].failing_write = Some((arrives, is_lost));
                });
            }
            Fault::Slow { client, delay, span } => {
                self.clients[client].slow = (now + span, delay);
                true
            }
            Fault::Pause { client, span } => self.pause(client, span),
            Fault::Suspend { client, span } => {
                for link in self.clients[client].links.clone() {
                    self.stall(link, true, span);
                    self.stall(link, false, span);
                }
                self.pause(client, span)
            }
            Fault::StopReading { client, span } => {
                let deaf_until = &mut self.clients[client].deaf_until;
                *deaf_until = (now + span).max(*deaf_until);
                true
            }
            Fault::KillServer { down, loses_data } => self.kill_server(down, loses_data),
            Fault::ShutServerDown { down } => self.shut_server_down(down),
            Fault::PauseServer { .. } | Fault::SuspendServer { .. } if !is_served => false,
            Fault::PauseServer { span } => self.pause_server(span),
            Fault::SuspendServer { span } => {
                let until = now + span;
                let slept = until.saturating_sub(now.max(self.host.suspended_until));
                self.host.suspended_until = until.max(self.host.suspended_until);
                self.host.clock.slept += slept;
                // What it had planned comes later by that.
                self.host.due = self.host.due.map(|due| due + slept);
                self.pause_server(span)
            }
            Fault::Refuse { span } => {
                self.host.refuses_until = now + span;
                true
            }
            Fault::Hang { client, span } => {
                self.clients[client].hangs_until = now + span;
                self.on_link(client, 0, Self::cut);
                true
            }
            Fault::Impostor { client, kind, span } => {
                self.clients[client].impostor = Some((kind, now + span));
                for link in self.clients[client].links.clone() {
                    self.cut(link);
                }
                true
            }
        };
        if has_struck {
            self.count(kind);
            self.faults_end = self.faults_end.max(now + fault.span());
        }
        has_struck
    }

    /// Does something with one of the client's links that are open at both ends, or with one of another client's.
    fn on_link(&mut self, client: usize, choice: u64, act: impl FnOnce(&mut Self, LinkNo)) -> bool {
        let count = self.clients.len();
        let open = (0..count).map(|step| (client + step) % count).find_map(|client| {
            let links: Vec<_> = self.open_links(client);
            (!links.is_empty()).then(|| links[choice as usize % links.len()])
        });
        open.map(|link| act(self, link)).is_some()
    }

    /// The links of a client that are open at both ends.
    pub(crate) fn open_links(&self, client: usize) -> Vec<LinkNo> {
        self.clients[client].links.iter().copied().filter(|&link| self.links[link].is_there).collect()
    }

    pub(crate) fn stall(&mut self, link: LinkNo, is_up: bool, span: Duration) {
        let until = self.now + span;
        let pipe = self.links[link].pipe(is_up);
        pipe.stalled_until = until.max(pipe.stalled_until);
    }

    /// Both ends hear of it now; what was under way is lost.
    pub(crate) fn cut(&mut self, link: LinkNo) {
        self.links[link].up.kill();
        self.links[link].down.kill();
        self.lose_end(link, true);
        self.lose_end(link, false);
    }

    /// An end of a link hears of a reset.
    pub(super) fn lose_end(&mut self, number: LinkNo, is_server: bool) {
        let link = &self.links[number];
        let client = link.client;
        let until = if is_server { self.host.paused_until } else { self.clients[client].paused_until };
        if until > self.now {
            return self.wake_at(until, Wake::Lost { link: number, is_server });
        }
        if is_server && link.is_there {
            self.disconnect_there(number);
        } else if !is_server && link.is_here {
            let here = link.here;
            self.with_broker(client, |broker, now| broker.handle_disconnected(now, here));
        }
    }

    fn pause(&mut self, client: usize, span: Duration) -> bool {
        let until = (self.now + span).max(self.clients[client].paused_until);
        let host = &mut self.clients[client];
        host.paused_until = until;
        host.resumed = host.clock.read(until);
        true
    }

    fn pause_server(&mut self, span: Duration) -> bool {
        let until = &mut self.host.paused_until;
        *until = (self.now + span).max(*until);
        true
    }

    /// The server's process dies. What it had written arrives or not, a reset behind it.
    pub(crate) fn kill_server(&mut self, down: Duration, loses_data: bool) -> bool {
        if self.host.server.take().is_none() {
            return false;
        }
        self.host.due = None;
        self.host.back_after = None;
        self.host.links.clear();
        self.host.blocked.clear();
        for number in 0..self.links.len() {
            let link = &mut self.links[number];
            if link.is_there && !matches!(link.there, There::Impostor(_)) {
                link.is_there = false;
                link.up.kill();
                if loses_data {
                    link.down.kill();
                    link.down.is_shut = false;
                }
                self.make_room_up(number);
                self.push_down(number, Piece::Reset);
            }
        }
        self.wake_at(self.now + down, Wake::StartServer);
        true
    }

    pub(super) fn greet_as_impostor(&mut self, number: LinkNo, kind: Impostor) {
        match kind {
            Impostor::Silent => {}
            Impostor::Stranger => {
                self.push_down(number, Piece::Bytes(b"220 mail.example ESMTP\r\n".to_vec()));
            }
            Impostor::Refuser | Impostor::Rejecter => {
                self.push_down(number, Piece::Bytes(CHALLENGE.to_vec()));
            }
        }
        // It does not stay for ever.
        if let Some((_, until)) = self.clients[self.links[number].client].impostor {
            self.wake_at(until, Wake::Lost { link: number, is_server: true });
            self.wake_at(until, Wake::Lost { link: number, is_server: false });
        }
    }

    pub(super) fn answer_as_impostor(&mut self, number: LinkNo, piece: Piece) {
        let There::Impostor(kind) = self.links[number].there else { return };
        let Piece::Bytes(bytes) = piece else {
            self.links[number].is_there = false;
            return self.push_down(number, Piece::End);
        };
        if !self.oracle.facts.sees_wire {
            return;
        }
        let mut frames = Vec::new();
        let received = &mut self.links[number].server_received;
        let was_greeted = received.is_greeted;
        received.push(&bytes, &mut frames);
        if kind == Impostor::Refuser && received.is_greeted && !was_greeted {
            self.push_down(number, Piece::Bytes(b"Eauth_failed\n".to_vec()));
            self.push_down(number, Piece::End);
        }
        if kind == Impostor::Rejecter {
            for frame in frames {
                if matches!(frame, Frame::Acquire { .. }) {
                    self.push_down(number, Piece::Bytes(b"Ebad_lease\n".to_vec()));
                }
            }
        }
    }
}
