//! One connection: its login, its channels, its forwarded ports.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use russh::keys::{Algorithm, PublicKey};
use russh::server::{
    Auth, ChannelOpenHandle, Handler, Msg, PublicKeyOffer, Session, VerifiedPublicKey,
};
use russh::{Channel, ChannelId, ChannelOpenFailure, Error, Pty};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinSet;

use crate::forward;
use crate::remote_forwards::RemoteForwards;
use crate::server::Server;
use crate::session::{Opening, Program};
use crate::terminal::{TerminalRequest, window};

/// Channels that a connection may have at once.
const CHANNELS_MAX: usize = 256;
/// The subsystem that is there.
const SFTP: &str = "sftp";

/// A connection. All that runs for it ends with it; programs that were started see their terminal or pipes close.
#[derive(Debug)]
pub(crate) struct Client {
    server: Arc<Server>,
    addresses: Option<(SocketAddr, SocketAddr)>,
    /// Told when the login is done.
    logged_in: Option<oneshot::Sender<()>>,
    place: Option<OwnedSemaphorePermit>,
    /// Session channels whose program has not begun.
    openings: HashMap<ChannelId, Opening>,
    remote: RemoteForwards,
    running: JoinSet<()>,
}

impl Client {
    /// A connection whose login is not done.
    pub(crate) fn new(
        server: Arc<Server>,
        stream: &TcpStream,
        logged_in: oneshot::Sender<()>,
    ) -> io::Result<Self> {
        let addresses = (stream.peer_addr()?, stream.local_addr()?);
        Ok(Self {
            server,
            addresses: Some(addresses),
            logged_in: Some(logged_in),
            place: None,
            openings: HashMap::new(),
            remote: RemoteForwards::default(),
            running: JoinSet::new(),
        })
    }

    fn answer(&self, user: &str, key: &PublicKey, algorithm: &Algorithm) -> Auth {
        // The hash of the signature is SHA-1.
        let is_weak = *algorithm == Algorithm::Rsa { hash: None };
        match !is_weak && self.server.lets_in(user, key) {
            true => Auth::Accept,
            false => Auth::reject(),
        }
    }

    /// Runs what belongs to a channel, if there is room.
    fn run(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        while self.running.try_join_next().is_some() {}
        self.running.spawn(work);
    }

    fn has_room(&mut self) -> bool {
        while self.running.try_join_next().is_some() {}
        self.running.len() + self.openings.len() < CHANNELS_MAX
    }

    /// Starts the program of a session channel.
    fn start(
        &mut self,
        id: ChannelId,
        program: Program,
        session: &mut Session,
    ) -> Result<(), Error> {
        let Some(opening) = self.openings.remove(&id) else {
            return session.channel_failure(id);
        };
        match opening.start(&program, &self.server, self.addresses) {
            Ok(running) => {
                session.channel_success(id)?;
                self.run(running.attend(session.handle()));
                Ok(())
            }
            Err(error) => {
                session.channel_failure(id)?;
                let message = format!("muster-sshd: cannot start a program: {error}\r\n");
                session.extended_data(id, 1, message)?;
                session.close(id)
            }
        }
    }
}

impl Handler for Client {
    type Error = Error;

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Error> {
        Ok(self.answer(user, offer.public_key, offer.algorithm))
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Error> {
        let answer = self.answer(user, key.public_key, key.algorithm);
        if answer != Auth::Accept {
            return Ok(answer);
        }
        let Ok(place) = Arc::clone(&self.server.places).try_acquire_owned() else {
            return Ok(Auth::reject());
        };
        self.place = Some(place);
        if let Some(logged_in) = self.logged_in.take() {
            let _ = logged_in.send(());
        }
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Error> {
        if !self.has_room() {
            reply.reject(ChannelOpenFailure::ResourceShortage).await;
            return Ok(());
        }
        self.openings.insert(channel.id(), Opening::new(channel));
        reply.accept().await;
        Ok(())
    }

    async fn channel_close(&mut self, id: ChannelId, _session: &mut Session) -> Result<(), Error> {
        self.openings.remove(&id);
        Ok(())
    }

    async fn pty_request(
        &mut self,
        id: ChannelId,
        term: &str,
        columns: u32,
        rows: u32,
        width: u32,
        height: u32,
        modes: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Error> {
        let Some(opening) = self.openings.get_mut(&id) else {
            return session.channel_failure(id);
        };
        opening.terminal = Some(TerminalRequest {
            term: term.to_owned(),
            window: window([columns, rows, width, height]),
            modes: modes.to_vec(),
        });
        session.channel_success(id)
    }

    async fn env_request(
        &mut self,
        id: ChannelId,
        name: &str,
        value: &str,
        session: &mut Session,
    ) -> Result<(), Error> {
        let opening = self.openings.get_mut(&id);
        match opening.is_some_and(|opening| opening.set(name, value)) {
            true => session.channel_success(id),
            false => session.channel_failure(id),
        }
    }

    async fn agent_request(&mut self, id: ChannelId, session: &mut Session) -> Result<bool, Error> {
        let handle = session.handle();
        let opening = self.openings.get_mut(&id);
        Ok(opening.is_some_and(|opening| opening.forward_agent(handle).is_ok()))
    }

    async fn shell_request(&mut self, id: ChannelId, session: &mut Session) -> Result<(), Error> {
        self.start(id, Program::Shell, session)
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Error> {
        self.start(id, Program::Command(command.to_vec()), session)
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), Error> {
        match name {
            SFTP => self.start(id, Program::Sftp, session),
            _ => session.channel_failure(id),
        }
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _from: &str,
        _from_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Error> {
        let (true, Ok(port)) = (self.has_room(), u16::try_from(port)) else {
            reply.reject(ChannelOpenFailure::ResourceShortage).await;
            return Ok(());
        };
        self.run(forward::to_port(host.to_owned(), port, channel, reply));
        Ok(())
    }

    async fn channel_open_direct_streamlocal(
        &mut self,
        channel: Channel<Msg>,
        path: &str,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Error> {
        if !self.has_room() {
            reply.reject(ChannelOpenFailure::ResourceShortage).await;
            return Ok(());
        }
        self.run(forward::to_socket(path.to_owned(), channel, reply));
        Ok(())
    }

    async fn tcpip_forward(
        &mut self,
        address: &str,
        port: &mut u32,
        session: &mut Session,
    ) -> Result<bool, Error> {
        let begun = self.remote.listen(address, *port, session.handle()).await;
        *port = begun.as_ref().map_or(*port, |port| u32::from(*port));
        Ok(begun.is_ok())
    }

    async fn cancel_tcpip_forward(
        &mut self,
        address: &str,
        port: u32,
        _session: &mut Session,
    ) -> Result<bool, Error> {
        Ok(self.remote.stop(address, port))
    }

    async fn streamlocal_forward(
        &mut self,
        path: &str,
        session: &mut Session,
    ) -> Result<bool, Error> {
        Ok(self.remote.listen_at(path, session.handle()).is_ok())
    }

    async fn cancel_streamlocal_forward(
        &mut self,
        path: &str,
        _session: &mut Session,
    ) -> Result<bool, Error> {
        Ok(self.remote.stop(path, 0))
    }
}
