//! A container's process, looked after by its shim. containerd calls it a task.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use containerd_client::services::v1::{
    CreateTaskRequest, DeleteTaskRequest, GetRequest, KillRequest, ListTasksRequest, StartRequest,
    WaitRequest,
};
use containerd_client::types::Mount;
use containerd_client::types::v1::Process;
use muster_model::id::AttemptUid;
use prost_types::Timestamp;
use tonic::Code;

use super::Containerd;
use super::connection::CallFault;
use crate::engine::{ContainerSpec, EngineError, EngineExit, Logger};

const SIGKILL: i32 = 9;

impl Containerd {
    /// Makes the process, stopped before its first instruction, and starts the logger.
    pub(super) async fn create_process(
        &self,
        spec: &ContainerSpec,
        rootfs: Vec<Mount>,
    ) -> Result<(), EngineError> {
        let connection = &self.connection;
        let output = logger_uri(self.log_scheme().await, &spec.logger);
        let request = connection.request(CreateTaskRequest {
            container_id: spec.uid.to_string(),
            rootfs,
            stdout: output.clone(),
            stderr: output,
            ..CreateTaskRequest::default()
        });
        match connection
            .call(connection.client().tasks().create(request))
            .await
        {
            Ok(_) => Ok(()),
            Err(fault) if fault.is(Code::AlreadyExists) => Ok(()),
            Err(fault) => Err(connection.error("create the container", fault)),
        }
    }

    pub(super) async fn start_process(&self, uid: &AttemptUid) -> Result<u32, CallFault> {
        let connection = &self.connection;
        let request = connection.request(StartRequest {
            container_id: uid.to_string(),
            ..StartRequest::default()
        });
        let answer = connection
            .call(connection.client().tasks().start(request))
            .await?;
        Ok(answer.pid)
    }

    /// Waits for the end, however long it takes.
    pub(super) async fn wait_process(&self, uid: &AttemptUid) -> Result<EngineExit, CallFault> {
        let connection = &self.connection;
        let request = connection.request(WaitRequest {
            container_id: uid.to_string(),
            ..WaitRequest::default()
        });
        let answer = connection
            .call_unbounded(connection.client().tasks().wait(request))
            .await?;
        Ok(exit(answer.exit_status, answer.exited_at))
    }

    pub(super) async fn kill_process(
        &self,
        uid: &AttemptUid,
        signal: i32,
    ) -> Result<(), CallFault> {
        let connection = &self.connection;
        let request = connection.request(KillRequest {
            container_id: uid.to_string(),
            signal: signal.unsigned_abs(),
            ..KillRequest::default()
        });
        connection
            .call(connection.client().tasks().kill(request))
            .await
    }

    /// The process as containerd sees it, if there is one.
    pub(super) async fn process(&self, uid: &AttemptUid) -> Result<Option<Process>, EngineError> {
        let connection = &self.connection;
        let request = connection.request(GetRequest {
            container_id: uid.to_string(),
            ..GetRequest::default()
        });
        match connection
            .call(connection.client().tasks().get(request))
            .await
        {
            Ok(answer) => Ok(answer.process),
            Err(fault) if fault.is(Code::NotFound) => Ok(None),
            Err(fault) => Err(connection.error("look at the container", fault)),
        }
    }

    /// All processes by their container's name.
    pub(super) async fn processes(&self) -> Result<BTreeMap<String, Process>, EngineError> {
        let connection = &self.connection;
        let request = connection.request(ListTasksRequest::default());
        let answer = connection
            .call(connection.client().tasks().list(request))
            .await
            .map_err(|fault| connection.error("list the processes", fault))?;
        Ok(answer
            .tasks
            .into_iter()
            .map(|process| (process.id.clone(), process))
            .collect())
    }

    /// Ends and removes the process and everything it started.
    pub(super) async fn remove_process(&self, uid: &AttemptUid) -> Result<(), EngineError> {
        // Most have ended when they are removed, and one call does it. One that runs refuses.
        match self.delete_process(uid).await {
            Ok(()) => return Ok(()),
            Err(fault @ CallFault::Silent(_)) => {
                return Err(self.connection.error("remove the process", fault));
            }
            Err(CallFault::Said(_)) => {}
        }
        self.end_process(uid).await?;
        self.delete_process(uid)
            .await
            .map_err(|fault| self.connection.error("remove the process", fault))
    }

    async fn delete_process(&self, uid: &AttemptUid) -> Result<(), CallFault> {
        let connection = &self.connection;
        let request = connection.request(DeleteTaskRequest {
            container_id: uid.to_string(),
        });
        match connection
            .call(connection.client().tasks().delete(request))
            .await
        {
            Ok(_) => Ok(()),
            Err(fault) if fault.is(Code::NotFound) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Kills the first process and waits for its end. The kernel ends every other process of
    /// its PID namespace with it, before its own end is reported.
    async fn end_process(&self, uid: &AttemptUid) -> Result<(), EngineError> {
        let connection = &self.connection;
        match self.kill_process(uid, SIGKILL).await {
            Err(fault) if !fault.is(Code::NotFound) => {
                return Err(connection.error("kill the container", fault));
            }
            _ => {}
        }
        let request = connection.request(WaitRequest {
            container_id: uid.to_string(),
            ..WaitRequest::default()
        });
        match connection
            .call(connection.client().tasks().wait(request))
            .await
        {
            Err(fault) if !fault.is(Code::NotFound) => {
                Err(connection.error("end the container", fault))
            }
            _ => Ok(()),
        }
    }
}

/// The end of a process in the port's words.
pub(super) fn exit(code: u32, ended: Option<Timestamp>) -> EngineExit {
    // A Go time that was never set is year 1, before the epoch.
    let ended_ms = ended.map_or(0, |at| at.seconds * 1000 + i64::from(at.nanos) / 1_000_000);
    EngineExit {
        code,
        ended_ms: u64::try_from(ended_ms).unwrap_or(0),
    }
}

/// The shim starts `binary` with the query's keys and values as its arguments.
fn logger_uri(scheme: &str, logger: &Logger) -> String {
    let binary = percent_encoded(&logger.binary);
    let dir = percent_encoded(&logger.dir);
    format!("{scheme}://{binary}?log-dir={dir}")
}

fn percent_encoded(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_survives_the_logger_uri() {
        let logger = Logger {
            binary: "/usr/lib/muster/log er".into(),
            dir: "/var/log/a&b=c/ü+%".into(),
        };
        assert_eq!(
            logger_uri("binary", &logger),
            "binary:///usr/lib/muster/log%20er?log-dir=/var/log/a%26b%3Dc/%C3%BC%2B%25"
        );
    }

    #[test]
    fn an_unset_time_is_no_time() {
        let year_one = Timestamp {
            seconds: -62_135_596_800,
            nanos: 0,
        };
        assert_eq!(exit(3, Some(year_one)).ended_ms, 0);
        let later = Timestamp {
            seconds: 2,
            nanos: 5_000_000,
        };
        assert_eq!(exit(3, Some(later)).ended_ms, 2005);
    }
}
