//! A request on its way to a handler: matched, authenticated, body unread.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, IF_MATCH, RANGE};
use http::{HeaderMap, Method};
use hyper::upgrade::OnUpgrade;
use muster_model::id::{JobKey, TaskId, UserName};
use muster_model::login::LoginTrust;
use muster_model::people::Author;
use muster_model::policy::PortalPlugin;
use muster_model::sight::JobSight;
use muster_tls::Fingerprint;
use tokio::time::Instant;

use crate::attempts::LoginAttempts;
use crate::body::UnreadBody;
use crate::config::GatewayConfig;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::inflate::ContentEncoding;
use crate::list_cache::ListCache;
use crate::port::{self, ByteStream, Caller, JobReader, Jobs, LogRange, SessionOpener};
use crate::query::Query;
use crate::range;
use crate::route::Params;

/// A path and a query as a client wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestTarget {
    pub(crate) path: String,
    /// Empty if there is none.
    pub(crate) query: String,
}

impl RequestTarget {
    /// Another path with the same query.
    pub(crate) fn with_path(&self, path: &str) -> String {
        match self.query.as_str() {
            "" => path.to_owned(),
            query => format!("{path}?{query}"),
        }
    }
}

/// What a handler works with.
pub(crate) struct Call {
    pub(crate) config: Arc<GatewayConfig>,
    /// Wrong passwords so far.
    pub(crate) attempts: Arc<LoginAttempts>,
    /// Lists that were written before.
    pub(crate) lists: Arc<ListCache>,
    /// Where the request came from; `None` on the socket.
    pub(crate) address: Option<IpAddr>,
    /// The certificate that its connection was shown; `None` in clear.
    pub(crate) certificate: Option<Fingerprint>,
    pub(crate) method: Method,
    /// What was asked for, as it was written.
    pub(crate) target: RequestTarget,
    pub(crate) query: Query,
    pub(crate) params: Params,
    pub(crate) headers: HeaderMap,
    pub(crate) body: UnreadBody,
    /// The connection, for a protocol that takes HTTP's place; `None` where that cannot be.
    pub(crate) upgrade: Option<OnUpgrade>,
    /// Who asks; absent on an open route.
    pub(crate) caller: Option<Caller>,
    /// The token they came with; absent on the socket.
    pub(crate) token: Option<String>,
    /// The form key of the session, as all forms of this answer write it.
    pub(crate) form_key: OnceLock<Option<String>>,
    /// What the portal's bar has besides its own pages; empty for what is no page.
    pub(crate) plugins: Vec<PortalPlugin>,
}

impl Call {
    /// Who asks. A guest, if the route is open.
    pub(crate) fn caller(&self) -> Result<&Caller, ApiError> {
        self.caller.as_ref().ok_or(ApiError::Guest)
    }

    /// Whose sight counts for what the caller is shown of jobs.
    pub(crate) fn reader(&self) -> JobReader {
        match (&self.caller, &self.token) {
            (None, _) => JobReader::Guest,
            // Root may act for users that there are not.
            (Some(_), None) => JobReader::Root,
            (Some(caller), Some(_)) => JobReader::User(caller.user.clone()),
        }
    }

    /// Which jobs the caller sees.
    pub(crate) fn sight(&self, jobs: &dyn Jobs) -> Result<JobSight, ApiError> {
        Ok(jobs.sight(&self.reader())?)
    }

    /// Who asks, for the record of changes. The node is for the agent to fill in.
    pub(crate) fn author(&self) -> Result<Author, ApiError> {
        Ok(self.author_named(self.caller()?.user.as_str()))
    }

    /// A user who asks for a login, for the same record.
    pub(crate) fn author_named(&self, user: &str) -> Author {
        let address = self.address.map(|address| address.to_string());
        Author {
            user: user.to_owned(),
            address: address.unwrap_or_else(|| "socket".to_owned()),
            node: String::new(),
        }
    }

    /// The revision that `If-Match` names. A change holds only if nobody made another one since.
    pub(crate) fn revision(&self) -> Result<Option<u64>, ApiError> {
        let text = match self.headers.get(IF_MATCH) {
            None => return Ok(None),
            Some(value) => value.to_str().unwrap_or_default().trim(),
        };
        // Web servers in between make a tag weak where they compress what it stands for.
        let tag = text.strip_prefix("W/").unwrap_or(text);
        let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        let number = number.map(|tag| tag.strip_suffix("-gzip").unwrap_or(tag));
        match number.and_then(|number| number.parse().ok()) {
            _ if text == "*" => Ok(None),
            Some(number) => Ok(Some(number)),
            None => {
                let rule =
                    "If-Match must be the ETag that a GET of the same user or group answered";
                Err(ApiError::Parameters(rule.to_owned()))
            }
        }
    }

    /// How a password of this user is to be treated. After too many wrong ones from the caller's address
    /// it is refused without a check.
    pub(crate) fn admit_password(&self, user: &str) -> Result<LoginTrust, ApiError> {
        let Some(address) = self.address else {
            return Ok(LoginTrust::Usual);
        };
        let admitted = self.attempts.admit(address, counted(user), Instant::now());
        admitted.map_err(|left| ApiError::TooManyWrong {
            retry_s: left.as_secs() + 1,
        })
    }

    /// Counts what a password of this user was.
    pub(crate) fn count_password(&self, user: &str, is_right: bool) {
        let Some(address) = self.address else {
            return;
        };
        match is_right {
            true => self.attempts.right(address, counted(user), Instant::now()),
            false => self.attempts.wrong(address, counted(user), Instant::now()),
        }
    }

    /// Refuses a caller who neither owns the job nor is an admin. A job that is not there comes first,
    /// as upstream answers.
    pub(crate) async fn check_owner(&self, key: &JobKey, jobs: &dyn Jobs) -> Result<(), ApiError> {
        let caller = self.caller()?;
        if caller.admin || caller.user == key.user {
            return Ok(());
        }
        jobs.job(&self.sight(jobs)?, key, None).await?;
        Err(ApiError::NotOwner {
            user: caller.user.to_string(),
            what: format!("job {key}"),
        })
    }

    /// Whether the caller may change this job.
    pub(crate) fn is_own(&self, key: &JobKey) -> bool {
        let caller = self.caller.as_ref();
        caller.is_some_and(|caller| caller.admin || caller.user == key.user)
    }

    /// The job the path names, as `u~j` or in two parts. A name no job can have is just a job
    /// that is not there.
    pub(crate) fn job_key(&self) -> Result<JobKey, ApiError> {
        let text = match self.params.text("job") {
            "" => format!("{}~{}", self.params.text("user"), self.params.text("name")),
            text => text.to_owned(),
        };
        let key = text.parse();
        key.map_err(|_| port::PortError::NoJob(text).into())
    }

    /// The job attempt the path names.
    pub(crate) fn attempt(&self, key: &JobKey) -> Result<u32, ApiError> {
        let text = self.params.text("attempt");
        let missing = || port::PortError::NoJob(format!("{key} with jobAttemptIndex {text}"));
        text.parse().map_err(|_| missing().into())
    }

    /// The task the path names.
    pub(crate) fn task_id(&self, key: &JobKey) -> Result<TaskId, ApiError> {
        let (role, index) = (self.params.text("role"), self.params.text("index"));
        let missing = || port::PortError::NoTask {
            job: key.to_string(),
            task: format!("{role}:{index}"),
        };
        Ok(TaskId {
            role: role.parse().map_err(|_| missing())?,
            index: index.parse().map_err(|_| missing())?,
        })
    }

    /// Who opens a session, for the record of the task's node.
    pub(crate) fn session_opener(&self) -> Result<SessionOpener, ApiError> {
        let author = self.author()?;
        Ok(SessionOpener {
            user: author.user,
            address: author.address,
        })
    }

    /// A whole number of the query, if it names one.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let number = self.query.number(name);
        number
            .map_err(|text| ApiError::Parameters(format!("{name} must be a number, not {text:?}")))
    }

    /// The body's fields.
    pub(crate) async fn fields(&mut self) -> Result<Fields, ApiError> {
        let limit = self.config.limits.body_bytes;
        let body = self.read(limit).await?;
        Fields::parse(self.header(&CONTENT_TYPE), &body)
    }

    /// The whole body.
    pub(crate) async fn read(&mut self, max: usize) -> Result<Bytes, ApiError> {
        let packing = ContentEncoding::of(self.header(&CONTENT_ENCODING))?;
        let timeout = self.config.limits.read_timeout;
        let body = self.take_body().read(max, timeout).await?;
        packing.unpack(body, max).await
    }

    /// The whole body, a document's text.
    pub(crate) async fn document(&mut self) -> Result<String, ApiError> {
        let body = self.read(self.config.limits.document_bytes).await?;
        String::from_utf8(body.into())
            .map_err(|_| ApiError::Parameters("the document is not UTF-8 text".to_owned()))
    }

    /// The body as it comes, of any length.
    pub(crate) fn body_stream(&mut self) -> Result<ByteStream, ApiError> {
        let encoding = self.header(&CONTENT_ENCODING);
        if ContentEncoding::of(encoding)? != ContentEncoding::Plain {
            return Err(ApiError::Encoding(encoding.to_owned()));
        }
        let timeout = self.config.limits.read_timeout;
        Ok(self.take_body().into_stream(timeout))
    }

    /// The body as it comes, in whichever encoding.
    pub(crate) fn raw_body(&mut self) -> ByteStream {
        let timeout = self.config.limits.read_timeout;
        self.take_body().into_stream(timeout)
    }

    /// The one range the request asks for, if any.
    pub(crate) fn range(&self) -> Option<LogRange> {
        range::parse(self.header(&RANGE))
    }

    fn take_body(&mut self) -> UnreadBody {
        let none = UnreadBody::new(Box::pin(futures::stream::empty()), Some(0));
        std::mem::replace(&mut self.body, none)
    }

    /// A header's value, empty if absent or not ASCII.
    pub(crate) fn header(&self, name: &HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

/// What a user's passwords are counted under. Names that no user can have are counted as one.
fn counted(user: &str) -> &str {
    user.parse::<UserName>().map_or("", |_| user)
}
