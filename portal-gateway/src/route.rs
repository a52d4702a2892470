//! Every path the gateway answers, and how a request finds its handler.
//!
//! Paths match like OpenPAI's server matches them: any case, a trailing slash or none, `~` as
//! it is or as `%7E`, with or without the `/rest-server` that its web server used to cut off.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::auth::RouteAccess;
use crate::call::Call;
use crate::error::ApiError;
use crate::handle;
use crate::openapi::RouteDoc;
use crate::port::Ports;
use crate::reply::HandlerResult;
use crate::web;

/// Where OpenPAI's web server put its REST server.
const PREFIX: &str = "rest-server";
/// Longest path that is looked at, in bytes: two names of 255, a token and the words around.
const PATH_BYTES_MAX: usize = 8192;

type Answering<'p> = Pin<Box<dyn Future<Output = HandlerResult> + Send + 'p>>;

/// Which requests count against a rate of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateClass {
    /// Only those all requests count against.
    No,
    /// Job listings, by user.
    List,
    /// Submissions, by user.
    Submit,
    /// Logins by the device flow, each a question to the identity provider, by address.
    Device,
}

/// One route.
pub(crate) struct Route {
    /// `None` for any.
    pub(crate) method: Option<Method>,
    /// Words, `a|b` for either word, `:x` for a parameter, `*` at the end for one or more words.
    pub(crate) pattern: &'static str,
    pub(crate) access: RouteAccess,
    pub(crate) counted: RateClass,
    pub(crate) handler: fn(Call, &Ports) -> Answering<'_>,
    /// The handler: `jobs::detail`.
    pub(crate) name: &'static str,
    /// What `/openapi.json` tells of it: the function in `about` that is called like the handler. None for pages.
    pub(crate) about: Option<fn() -> RouteDoc>,
}

impl Route {
    /// Whether it is of the portal, where failures are pages too.
    pub(crate) fn is_portal(&self) -> bool {
        self.access.is_page() || self.pattern == "login"
    }

    /// Whether people look at it in a browser.
    pub(crate) fn is_page(&self) -> bool {
        let is_read = self.method == Some(Method::GET);
        is_read && (self.is_portal() || self.pattern == "status")
    }
}

/// What the parameters of a pattern stand for in a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params {
    named: Vec<(&'static str, String)>,
    /// The words that `*` stands for.
    rest: Vec<String>,
}

impl Params {
    /// Empty if the pattern has no such parameter.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// None if the pattern has no such parameter.
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        let found = self.named.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The words at the end, if the pattern ends with `*`.
    pub(crate) fn rest(&self) -> &[String] {
        &self.rest
    }
}

macro_rules! routes {
    ($root:ident: $($method:ident $pattern:literal $access:ident $($counted:ident)? => $subject:ident::$name:ident($($port:ident),*);)*) => {
        &[$(Route {
            method: routes!(@method $method),
            pattern: $pattern,
            access: RouteAccess::$access,
            counted: routes!(@counted $($counted)?),
            handler: |call, ports| {
                let Ports { $($port,)* .. } = ports;
                Box::pin($root::$subject::$name(call, $(&**$port),*))
            },
            name: concat!(stringify!($subject), "::", stringify!($name)),
            about: routes!(@about $root $subject $name),
        }),*]
    };
    (@about handle $subject:ident $name:ident) => { Some(handle::$subject::about::$name) };
    (@about web $subject:ident $name:ident) => { None };
    (@method ANY) => { None };
    (@method $method:ident) => { Some(Method::$method) };
    (@counted) => { RateClass::No };
    (@counted $counted:ident) => { RateClass::$counted };
}

/// The pages of the portal, and what they load.
pub(crate) static PAGES: &[Route] = routes! { web:
    GET "" Page => overview::page(jobs, nodes, membership);
    GET "login" Open => login::page(membership);
    POST "login" Open => login::enter(users, membership);
    POST "logout" Page => login::leave(users);
    GET "assets/:file" Open => asset::one();
    GET "jobs" Page List => job_list::page(jobs, nodes, membership);
    POST "jobs" Page => job_change::change(jobs, nodes, membership);
    GET "jobs/export" Page List => job_export::file(jobs);
    GET "jobs/:job" Page => job_page::page(jobs, nodes, membership);
    POST "jobs/:job" Page => job_page::change(jobs);
    GET "jobs/:job/use" Page => use_page::page(jobs, uses, membership);
    POST "jobs/:job/stacks" Page => stacks_page::page(jobs, membership);
    GET "jobs/:job/attempts/:attempt/tasks/:role/:index/:task/log"
        Page => task_log::page(jobs, logs, membership);
    GET "jobs/:job/attempts/:attempt/tasks/:role/:index/:task/log/stream"
        Page => log_stream::follow(jobs, logs);
    GET "jobs/:job/attempts/:attempt/tasks/:role/:index/:task/log/download"
        Page => log_stream::download(jobs, logs);
    GET "jobs/:job/tasks/:role/:index/terminal" Page => terminal_page::page(jobs, membership);
    GET "jobs/:job/tasks/:role/:index/terminal/connect"
        Page => terminal_page::connect(jobs, sessions);
    GET "submit" Page => submit::page(jobs, nodes, users, membership);
    POST "submit" Page Submit => submit::send(jobs, nodes, users, membership);
    GET "account" Page => account::page(users, membership);
    POST "account" Page => account::change(users, membership);
    GET "people" AdminPage => people::page(users, membership);
    POST "people" AdminPage => people::change(users, membership);
    GET "virtual-clusters/:vc" Page => vc_page::page(jobs, nodes, membership);
    GET "documents" Page => document_page::list(documents, membership);
    GET "documents/:document" Page => document_page::page(documents, membership);
    POST "documents/:document" AdminPage => document_page::change(documents, nodes, membership);
    POST "documents/:document/try" Page => rule_try::page(documents, membership);
    GET "cluster" Page => cluster_page::page(membership);
    GET "plugins/:plugin" Page => plugin::page(membership);
    ANY "proxy/:job/:port" Page => proxy::cut(jobs, sessions);
    ANY "proxy/:job/:port/*" Page => proxy::cut(jobs, sessions);
    ANY "absproxy/:job/:port" Page => proxy::whole(jobs, sessions);
    ANY "absproxy/:job/:port/*" Page => proxy::whole(jobs, sessions);
    GET "nodes" Page => node_list::page(nodes, membership);
    GET "nodes/:node" Page => node_page::page(jobs, nodes, membership);
    POST "nodes/:node" AdminPage => node_page::change(jobs, nodes, membership);
};

/// All others, each with its handler and the ports that this may use. The first that fits is taken.
pub(crate) static ROUTES: &[Route] = routes! { handle:
    GET "status" Open => nodes::status(jobs, nodes, membership);
    GET "status.json" Open => nodes::status_json(jobs, nodes, membership);
    GET "status.txt" Open => nodes::status_text(jobs, nodes, membership);
    GET "metrics" OpenOrUser => metrics::scrape(figures, jobs, nodes, uses);
    GET "healthz" Open => info::health();
    GET "openapi.json" Open => info::described();
    ANY "api/v1" Open => info::info();
    ANY "api/v2" Open => info::root();
    ANY "api/v2/info" Open => info::info();

    GET "api/v1|v2/authn/info" Open => info::authn();
    POST "api/v1|v2/authn/basic/login" Open => session::login(users);
    GET "api/v1|v2/authn/oidc/login" Open => oidc::login(identity);
    GET "api/v1|v2/authn/oidc/return" Open => oidc::finish(users, identity);
    POST "api/v1|v2/authn/oidc/return" Open => oidc::finish_form(users, identity);
    GET "api/v1|v2/authn/oidc/logout" Open => oidc::logout(identity);
    POST "api/v1|v2/authn/oidc/backchannel-logout" Open => backchannel::logout(users, identity);
    DELETE "api/v1|v2/authn/basic/logout" Person => session::logout(users);
    POST "api/v1|v2/token|tokens" Open => session::login(users);
    GET "api/v1|v2/token|tokens" Person => session::list(users);
    GET "api/v1|v2/token|tokens/check" User => session::check(users);
    POST "api/v1|v2/token|tokens/application" Person => session::application(users);
    DELETE "api/v1|v2/token|tokens" AdminPerson => session::revoke_all(users);
    DELETE "api/v1|v2/token|tokens/:token" Person => session::revoke(users);

    GET "api/v2/user|users" User => users::list(users);
    POST "api/v2/user|users" AdminPerson => users::add(users);
    PUT "api/v2/user|users" AdminPerson => users::update(users);
    PUT "api/v2/user|users/me" Person => users::update_self(users);
    GET "api/v1|v2/user|users/:user" User => users::one(users);
    DELETE "api/v2/user|users/:user" AdminPerson => users::remove(users);
    PUT "api/v2/user|users/:user/group" AdminPerson => users::add_group(users);
    DELETE "api/v2/user|users/:user/group" AdminPerson => users::remove_group(users);
    PUT "api/v2/user|users/:user/grouplist" AdminPerson => users::set_groups(users);
    PUT "api/v2/user|users/:user/extension" Person => users::merge_extension(users);
    PUT "api/v2/user|users/:user/virtualcluster" AdminPerson => users::set_vcs(users);
    PUT "api/v2/user|users/:user/admin" AdminPerson => users::set_admin(users);
    PUT "api/v2/user|users/:user/password" Person => users::set_password(users);
    PUT "api/v2/user|users/:user/email" Person => users::set_email(users);
    GET "api/v2/group|groups" User => groups::list(users);
    POST "api/v2/group|groups" AdminPerson => groups::add(users);
    PUT "api/v2/group|groups" AdminPerson => groups::update(users);
    GET "api/v2/group|groups/:group" User => groups::one(users);
    DELETE "api/v2/group|groups/:group" AdminPerson => groups::remove(users);
    GET "api/v2/group|groups/:group/userlist" Admin => groups::members(users);
    PUT "api/v2/group|groups/:group/extension" AdminPerson => groups::merge_extension(users);
    PUT "api/v2/group|groups/:group/extension/*" AdminPerson => groups::set_attribute(users);
    PUT "api/v2/group|groups/:group/description" AdminPerson => groups::set_description(users);
    PUT "api/v2/group|groups/:group/externalname" AdminPerson => groups::set_external_name(users);

    GET "api/v2/virtual-clusters" User => clusters::list(nodes);
    GET "api/v1/virtual-clusters" User => clusters::list(nodes);
    GET "api/v2/virtual-clusters/:vc" User => clusters::one(nodes);
    GET "api/v2/virtual-clusters/:vc/sku-types" User => clusters::skus_of_one(nodes);
    PUT "api/v2/virtual-clusters/:vc" Admin => missing::update_vc();
    DELETE "api/v2/virtual-clusters/:vc" Admin => missing::remove_vc();
    GET "api/v2/cluster/sku-types" User => clusters::skus(nodes);
    GET "api/v2/storages" User => storages::list(storages, users);
    GET "api/v2/storages/:storage" User => storages::one(storages, users);
    GET "api/v2/storage/config" User => storages::old_configs(storages, users);
    GET "api/v2/storage/config/:name" User => storages::old_configs(storages, users);
    GET "api/v2/storage/server" User => storages::old_servers(storages, users);
    GET "api/v2/storage/server/:name" User => storages::old_servers(storages, users);
    GET "api/v2/alerts" User => clusters::alerts(membership);

    GET "api/v2/jobs" User List => listings::list(jobs);
    POST "api/v2/jobs" User Submit => jobs::submit(jobs);
    GET "api/v2/jobs/:job" User => jobs::detail(jobs);
    GET "api/v2/jobs/:job/config" User => jobs::config(jobs);
    PUT "api/v2/jobs/:job/executionType" User => jobs::execution_type(jobs);
    PUT "api/v2/jobs/:job/tag" User => jobs::add_tag(jobs);
    DELETE "api/v2/jobs/:job/tag" User => jobs::remove_tag(jobs);
    GET "api/v2/jobs/:job/events" User => jobs::events(jobs);
    GET "api/v2/jobs/:job/ssh" User => jobs::ssh(jobs);
    GET "api/v2/jobs/:job/attempts/:attempt" User => jobs::detail(jobs);
    GET "api/v2/jobs/:job/job-attempts" User => tasks::job_attempts(jobs);
    GET "api/v2/jobs/:job/job-attempts/healthz" User => tasks::job_attempts_health();
    GET "api/v2/jobs/:job/job-attempts/:attempt" User => tasks::job_attempt(jobs);
    GET "api/v2/jobs/:job/attempts/:attempt/taskRoles/:role/taskIndex/:index/attempts"
        User => tasks::attempts(jobs);
    GET "api/v2/jobs/:job/attempts/:attempt/taskRoles/:role/taskIndex/:index/attempts/:task/logs"
        User => logs::locations(jobs, logs);
    GET "log-manager/:node/api/v1/proof" Open => logs::proof();
    GET "log-manager/:node/api/v1/use" Open => uses::linked(jobs, uses);
    GET "log-manager/:node/api/v1/logs" Open => logs::linked_files(jobs, logs);
    GET "log-manager/:node/api/v1/logs/:file" Open => logs::linked(jobs, logs);
    GET "log-manager/:node/api/v1/logs/:file/places" Open => logs::linked_places(jobs, logs);

    GET "api/v1/jobs" User List => listings::list(jobs);
    GET "api/v1/user/:user/jobs" User List => listings::of_user(jobs);
    POST "api/v1/user/:user/jobs" User Submit => jobs::submit(jobs);
    GET "api/v1/user/:user/jobs/:name" User => jobs::detail(jobs);
    GET "api/v1/user/:user/jobs/:name/config" User => jobs::config(jobs);
    PUT "api/v1/user/:user/jobs/:name/executionType" User => jobs::execution_type(jobs);

    GET "api/v1|v2/kubernetes/nodes" Admin => kubernetes::nodes(membership, nodes);
    GET "api/v1|v2/kubernetes/pods" Admin => kubernetes::pods(membership);
    GET "prometheus/api/v1/query" Browser => figures::query(jobs, membership);
    GET "prometheus/api/v1/query_range" Browser => figures::query_range();

    POST "api/muster/v1/authn/device" Open Device => device::begin(identity);
    POST "api/muster/v1/authn/device/token" Open Device => device::poll(users, identity);
    GET "api/muster/v1/node" Admin => nodes::view(nodes);
    POST "api/muster/v1/doctor" Admin => nodes::doctor(nodes);
    GET "api/muster/v1/audit" Admin => audit::list(users);
    GET "api/muster/v1/tokens" Person => tokens::list(users);
    POST "api/muster/v1/tokens" Person => tokens::create(users);
    DELETE "api/muster/v1/tokens" Person => tokens::revoke_all(users);
    POST "api/muster/v1/tokens/key" AdminPerson => tokens::rotate_key(users);
    DELETE "api/muster/v1/tokens/:token" Person => tokens::revoke(users);
    GET "api/muster/v1/alarms" User => membership::alarms(membership);
    GET "api/muster/v1/cluster" User => membership::view(membership);
    POST "api/muster/v1/cluster" Admin => membership::init(membership);
    GET "api/muster/v1/cluster/members" User => membership::members(membership);
    DELETE "api/muster/v1/cluster/members/:member" Admin => membership::expel(membership);
    PUT "api/muster/v1/cluster/members/:member/scheduling" Admin => nodes::schedule(nodes);
    GET "api/muster/v1/cluster/members/:member/tasks" User => nodes::tasks_on(jobs, nodes);
    GET "api/muster/v1/cluster/members/:member/images" Admin => nodes::images_on(nodes);
    GET "api/muster/v1/cluster/members/:member/health" Admin => nodes::health_on(nodes);
    POST "api/muster/v1/cluster/members/:member/health" Admin => nodes::mark(nodes);
    POST "api/muster/v1/cluster/members/:member/inventory/accept" Admin => nodes::accept_inventory(nodes);
    POST "api/muster/v1/cluster/members/:member/off" Admin => nodes::say_off(nodes);
    GET "api/muster/v1/cluster/join" Admin => membership::join_plan(membership);
    POST "api/muster/v1/cluster/join" Admin => membership::join(membership);
    POST "api/muster/v1/cluster/leave" Admin => membership::leave(membership);
    GET "api/muster/v1/cluster/recovery" Admin => membership::recovery(membership);
    POST "api/muster/v1/cluster/recovery" Admin => membership::recover(membership);
    GET "api/muster/v1/cluster/tokens" Admin => membership::tokens(membership);
    POST "api/muster/v1/cluster/tokens" Admin => membership::create_token(membership);
    DELETE "api/muster/v1/cluster/tokens/:token" Admin => membership::revoke_token(membership);
    GET "api/muster/v1/documents" User => documents::list(documents);
    GET "api/muster/v1/documents/:document" User => documents::one(documents);
    PUT "api/muster/v1/documents/:document" Admin => documents::edit(documents);
    GET "api/muster/v1/documents/:document/history" User => documents::history(documents);
    GET "api/muster/v1/documents/:document/text" User => documents::text(documents);
    POST "api/muster/v1/documents/:document/rollback" Admin => documents::rollback(documents);
    POST "api/muster/v1/failure-rules/try" User => documents::try_rules(documents);
    POST "api/muster/v1/failure-rules/test" Admin => documents::test_rules(documents);
    GET "api/muster/v1/images" Admin => images::list(images);
    DELETE "api/muster/v1/images" Admin => images::remove(images);
    POST "api/muster/v1/images/import" Admin => images::import(images);
    POST "api/muster/v1/images/pull" Admin => images::pull(images);
    GET "api/muster/v1/nodes" User => nodes::list(nodes);
    GET "api/muster/v1/usage" User => usage::list(nodes, users);
    GET "api/muster/v1/storages" User => storages::grants(storages, users);
    POST "api/muster/v1/storages/:storage/probe" User => storage_files::probe(storages, users);
    GET "api/muster/v1/storages/:storage/files" User => storage_files::list(storages, users);
    GET "api/muster/v1/storages/:storage/files/content" User => storage_files::read(storages, users);
    PUT "api/muster/v1/storages/:storage/files/content" User => storage_files::write(storages, users);
    GET "api/muster/v1/storages/:storage/files/tree" User => storage_files::read_tree(storages, users);
    PUT "api/muster/v1/storages/:storage/files/tree" User => storage_files::write_tree(storages, users);
    GET "api/muster/v1/storages/:storage/files/upload" User => storage_files::kept(storages, users);
    GET "api/muster/v1/virtual-clusters" User => nodes::virtual_clusters(nodes);
    GET "api/muster/v1/virtual-clusters/:vc/cells" User => nodes::cells(jobs, nodes);
    POST "api/muster/v1/virtual-clusters/what-if" Admin => nodes::what_if(nodes);
    GET "api/muster/v1/virtual-clusters/:vc/recovery" Admin => membership::recovery(membership);
    POST "api/muster/v1/virtual-clusters/:vc/recovery" Admin => membership::recover(membership);
    GET "api/muster/v1/jobs" User List => own::list(jobs);
    POST "api/muster/v1/jobs/what-if" User Submit => own::what_if(jobs);
    GET "api/muster/v1/jobs/:job" User => own::detail(jobs);
    GET "api/muster/v1/jobs/:job/explanation" User => own::explanation(jobs);
    GET "api/muster/v1/jobs/:job/wait" User => own::wait(jobs);
    POST "api/muster/v1/jobs/:job/stacks" User => stacks::take(jobs);
    GET "api/muster/v1/jobs/:job/tasks/:role/:index/exec" Person => sessions::exec(jobs, sessions);
    GET "api/muster/v1/jobs/:job/tasks/:role/:index/ports/:port" Person => sessions::port(jobs, sessions);
    GET "api/muster/v1/jobs/:job/attempts/:attempt/tasks/:role/:index/:task/logs"
        User => logs::files(jobs, logs);
    GET "api/muster/v1/jobs/:job/attempts/:attempt/tasks/:role/:index/:task/logs/:file"
        User => logs::file(jobs, logs);
    GET "api/muster/v1/jobs/:job/attempts/:attempt/tasks/:role/:index/:task/logs/:file/places"
        User => logs::places(jobs, logs);
    GET "api/muster/v1/jobs/:job/attempts/:attempt/tasks/:role/:index/:task/use"
        User => uses::one(jobs, uses);
};

/// The route for a request, with its parameters. HEAD is answered like GET.
pub(crate) fn find(method: &Method, path: &str) -> Result<(&'static Route, Params), ApiError> {
    let missing = || ApiError::NoApi(path.chars().take(PATH_BYTES_MAX).collect());
    if path.len() > PATH_BYTES_MAX {
        return Err(missing());
    }
    let words = words(path).ok_or_else(missing)?;
    let method = match *method {
        Method::HEAD => &Method::GET,
        _ => method,
    };
    PATTERNS
        .iter()
        .filter(|pattern| {
            pattern
                .route
                .method
                .as_ref()
                .is_none_or(|one| one == method)
        })
        .find_map(|pattern| Some((pattern.route, pattern.fit(&words)?)))
        .ok_or_else(missing)
}

/// All routes, in the order in which they are tried.
static PATTERNS: LazyLock<Vec<Pattern>> =
    LazyLock::new(|| PAGES.iter().chain(ROUTES).map(Pattern::of).collect());

/// The pattern of a route, cut up once: every request is held against most of them.
struct Pattern {
    route: &'static Route,
    parts: Vec<&'static str>,
    /// Whether `*` is the last part, which stands for one or more words.
    is_open: bool,
}

/// The path's parts, decoded; `None` if one is not UTF-8.
fn words(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut words = path
        .split('/')
        .map(|part| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned()))
        .collect::<Option<Vec<_>>>()?;
    if words[0].eq_ignore_ascii_case(PREFIX) {
        words.remove(0);
    }
    if words.is_empty() {
        words.push(String::new());
    }
    Some(words)
}

impl Pattern {
    fn of(route: &'static Route) -> Self {
        let mut parts: Vec<_> = route.pattern.split('/').collect();
        let is_open = parts.last() == Some(&"*");
        if is_open {
            parts.pop();
        }
        Self {
            route,
            parts,
            is_open,
        }
    }

    /// What the parameters stand for, if a path of these words matches.
    fn fit(&self, words: &[String]) -> Option<Params> {
        let (words, rest) = words.split_at_checked(self.parts.len())?;
        let is_whole = !rest.is_empty() && rest.iter().all(|it| !it.is_empty());
        if self.is_open != is_whole || !self.is_open && !rest.is_empty() {
            return None;
        }
        let mut named = Vec::new();
        for (part, word) in self.parts.iter().zip(words) {
            match part.strip_prefix(':') {
                Some(_) if word.is_empty() => return None,
                Some(name) => named.push((name, word.clone())),
                None if part.split('|').any(|one| one.eq_ignore_ascii_case(word)) => {}
                None => return None,
            }
        }
        let rest = rest.to_vec();
        Some(Params { named, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, path: &str) -> String {
        match find(&method.parse().unwrap(), path) {
            Err(_) => "none".to_owned(),
            Ok((route, params)) => {
                let params: Vec<String> = params
                    .named
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .chain(params.rest.iter().cloned())
                    .collect();
                format!(
                    "{} {:?} [{}]",
                    route.pattern,
                    route.access,
                    params.join(",")
                )
            }
        }
    }

    #[test]
    fn paths_find_their_route() {
        let job = "api/v2/jobs/:job User [job=u.x-1~J_b]";
        for (method, path, want) in [
            ("GET", "/api/v2/jobs/u.x-1~J_b", job),
            ("GET", "/rest-server/api/v2/jobs/u.x-1%7EJ_b/", job),
            ("HEAD", "/API/V2/Jobs/u.x-1%7eJ_b", job),
            ("PATCH", "/api/v2/jobs", "none"),
            ("GET", "/api", "none"),
            ("GET", "/api/v2//jobs", "none"),
            ("GET", "/api/v2/jobs/u~j/%ff", "none"),
            ("GET", "", " Page []"),
            ("GET", "/", " Page []"),
            ("GET", "/rest-server", " Page []"),
            ("PUT", "/api/v1/", "api/v1 Open []"),
            ("POST", "/api/v1/token", "api/v1|v2/token|tokens Open []"),
            (
                "GET",
                "/api/v2/tokens/check",
                "api/v1|v2/token|tokens/check User []",
            ),
            ("POST", "/api/v2/users", "api/v2/user|users AdminPerson []"),
            ("PUT", "/api/v2/user/me", "api/v2/user|users/me Person []"),
            (
                "PUT",
                "/api/v2/group/g/extension/acls/a%2Fb/",
                "api/v2/group|groups/:group/extension/* AdminPerson [group=g,acls,a/b]",
            ),
            ("PUT", "/api/v2/groups/g/extension/acls//b", "none"),
            ("PUT", "/api/v2/users/ann", "none"),
            (
                "GET",
                "/api/v1/user/ann/jobs/j",
                "api/v1/user/:user/jobs/:name User [user=ann,name=j]",
            ),
            (
                "GET",
                "/api/v2/jobs/u~j/job-attempts/healthz",
                "api/v2/jobs/:job/job-attempts/healthz User [job=u~j]",
            ),
            (
                "GET",
                "/api/v2/virtual-clusters/v/sku-types/",
                "api/v2/virtual-clusters/:vc/sku-types User [vc=v]",
            ),
            ("GET", "/api/v2/virtual-clusters/v/sku-type", "none"),
        ] {
            assert_eq!(found(method, path), want, "{method} {path}");
        }
        assert_eq!(
            found("GET", &format!("/api/v2/jobs/{}", "a".repeat(9000))),
            "none"
        );
    }

    #[test]
    fn no_token_of_a_program_changes_users_or_groups() {
        let of_people = ["api/v2/user|users", "api/v2/group|groups"];
        for route in ROUTES.iter().filter(|route| {
            route.method != Some(Method::GET)
                && of_people
                    .iter()
                    .any(|start| route.pattern.starts_with(start))
        }) {
            let by_people = [RouteAccess::Person, RouteAccess::AdminPerson];
            assert!(by_people.contains(&route.access), "{}", route.pattern);
        }
    }

    #[test]
    fn what_changes_something_or_shows_the_node_is_never_open() {
        let open = [
            "login",
            "assets/:file",
            "status",
            "status.json",
            "status.txt",
            "metrics",
            "healthz",
            "openapi.json",
            "api/v1",
            "api/v2",
            "api/v2/info",
        ];
        let login = [
            "authn/info",
            "authn/basic/login",
            "authn/oidc/login",
            "authn/oidc/return",
            "authn/oidc/logout",
            "authn/oidc/backchannel-logout",
            "authn/device",
            "authn/device/token",
            "token|tokens",
        ];
        let all = PAGES.iter().chain(ROUTES);
        for route in all.filter(|route| route.access == RouteAccess::Open) {
            let known = open.contains(&route.pattern)
                || login.iter().any(|end| route.pattern.ends_with(end))
                || route.pattern.starts_with("log-manager/");
            assert!(known, "{} is open to anybody", route.pattern);
        }
        for route in ROUTES
            .iter()
            .filter(|r| r.pattern.contains("muster/v1/images"))
        {
            assert_eq!(route.access, RouteAccess::Admin);
        }
        let parts = [
            "muster/v1/cluster",
            "muster/v1/documents",
            "muster/v1/doctor",
            "muster/v1/failure-rules/test",
        ];
        for route in ROUTES
            .iter()
            .filter(|r| parts.iter().any(|part| r.pattern.contains(part)))
        {
            let reads = route.method == Some(Method::GET);
            let secret = ["tokens", "join", "recovery", "images", "health"]
                .iter()
                .any(|end| route.pattern.ends_with(end));
            let want = if reads && !secret {
                RouteAccess::User
            } else {
                RouteAccess::Admin
            };
            assert_eq!(route.access, want, "{}", route.pattern);
        }
    }
}
