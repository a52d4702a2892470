//! The agent's side of the socket, as simple as can be.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use muster_init::connection::listen;
use muster_init::exit_report::{ExitReport, TaskPhase};
use muster_init::frame::Decoder;
use muster_init::message::{Go, StopMessage, TaskSetup, ToAgent, ToInit};
use muster_init::task_dir::AGENT_SOCKET;

use crate::task::until;

#[derive(Debug)]
pub(crate) struct Agent {
    listener: UnixListener,
    connection: Option<(UnixStream, Decoder)>,
}

pub(crate) fn setup(script: &str) -> TaskSetup {
    TaskSetup {
        environment: [("GREETING".to_owned(), "hello".to_owned())].into(),
        pre_commands: Vec::new(),
        script: script.to_owned(),
        post_commands: Vec::new(),
        workdir: None,
        grace_ms: 300,
        lease: None,
    }
}

impl Agent {
    pub(crate) fn listen(ctl: &Path) -> Self {
        let dir = File::open(ctl).unwrap();
        let listener = listen(dir.as_fd(), AGENT_SOCKET).unwrap();
        Self {
            listener,
            connection: None,
        }
    }

    /// Takes the next connection and returns the phase of its hello.
    pub(crate) fn accept(&mut self) -> TaskPhase {
        let mut accepted = None;
        until("muster-init connects", || {
            accepted = self.listener.accept().ok();
            accepted.is_some()
        });
        let (stream, _) = accepted.unwrap();
        stream.set_nonblocking(false).unwrap();
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        self.connection = Some((stream, Decoder::default()));
        match self.next() {
            Some(ToAgent::Hello(hello)) => hello.phase,
            other => panic!("no hello but {other:?}"),
        }
    }

    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
    }

    pub(crate) fn send(&mut self, message: &ToInit) {
        let (stream, _) = self.connection.as_mut().unwrap();
        match stream.write_all(&message.encode().unwrap()) {
            // A task that has ended by itself hears nothing more.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            written => written.unwrap(),
        }
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<ToAgent> {
        let (stream, decoder) = self.connection.as_mut().unwrap();
        loop {
            if let Some(frame) = decoder.next_frame().unwrap() {
                return ToAgent::decode(&frame).unwrap();
            }
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer).unwrap() {
                0 => return None,
                count => decoder.push(&buffer[..count]),
            }
        }
    }

    /// Hello, setup, ready, go.
    pub(crate) fn launch(&mut self, setup: TaskSetup) {
        self.get_ready(setup);
        self.send(&ToInit::Go(Go {}));
    }

    pub(crate) fn get_ready(&mut self, setup: TaskSetup) {
        assert_eq!(self.accept(), TaskPhase::Setup);
        self.send(&ToInit::Setup(setup));
        assert!(matches!(self.next(), Some(ToAgent::Ready(_))));
    }

    pub(crate) fn stop(&mut self, grace_ms: u64) {
        self.send(&ToInit::Stop(StopMessage { grace_ms }));
    }

    pub(crate) fn wait_phase(&mut self, phase: TaskPhase) {
        loop {
            match self.next() {
                Some(ToAgent::Progress(progress)) if progress.phase == phase => return,
                Some(ToAgent::Progress(_)) => {}
                other => panic!("no progress to {phase:?} but {other:?}"),
            }
        }
    }

    /// Everything up to the exit.
    pub(crate) fn wait_exit(&mut self) -> ExitReport {
        loop {
            match self.next() {
                Some(ToAgent::Exit(report)) => return report,
                Some(_) => {}
                None => panic!("the connection ended without an exit"),
            }
        }
    }
}
