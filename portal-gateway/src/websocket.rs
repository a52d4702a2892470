//! WebSockets: a connection that HTTP has left, and messages over it.

use http::HeaderValue;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::call::Call;
use crate::error::ApiError;
use crate::reply::{HttpReply, ascii};

/// The version of the protocol that there is.
const VERSION: &str = "13";
/// Bytes of a message that a client may send.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A WebSocket with a client.
pub(crate) type ClientSocket = WebSocketStream<TokioIo<Upgraded>>;

/// A request for a WebSocket that can be granted.
#[derive(Debug)]
pub(crate) struct WebSocketRequest {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    subprotocol: Option<&'static str>,
}

impl WebSocketRequest {
    /// What a call asks for. `subprotocol` is the one that is spoken here: a client that names some must name it.
    ///
    /// # Errors
    /// [`ApiError::Upgrade`] where it is no such request.
    pub(crate) fn of(call: &mut Call, subprotocol: Option<&'static str>) -> Result<Self, ApiError> {
        let has = |name, word: &str| {
            let words = call.header(&name).split(',');
            words
                .map(str::trim)
                .any(|text| text.eq_ignore_ascii_case(word))
        };
        if !has(UPGRADE, "websocket") || !has(CONNECTION, "upgrade") {
            return Err(ApiError::Upgrade(
                "Upgrade and Connection must ask for it. A browser or `muster job` does; a web server in between has \
                 to pass both on.",
            ));
        }
        if !has(SEC_WEBSOCKET_VERSION, VERSION) {
            return Err(ApiError::Upgrade("Sec-WebSocket-Version must be 13"));
        }
        let key = call.header(&SEC_WEBSOCKET_KEY);
        if key.is_empty() {
            return Err(ApiError::Upgrade("Sec-WebSocket-Key is missing"));
        }
        let accept = ascii(derive_accept_key(key.as_bytes()));
        let named = !call.header(&SEC_WEBSOCKET_PROTOCOL).is_empty();
        let subprotocol = subprotocol.filter(|_| named);
        if let Some(spoken) = subprotocol
            && !has(SEC_WEBSOCKET_PROTOCOL, spoken)
        {
            return Err(ApiError::Upgrade(
                "Sec-WebSocket-Protocol must name v5.channel.k8s.io, or be absent",
            ));
        }
        let over = "the connection cannot leave HTTP";
        let upgrade = call.upgrade.take().ok_or(ApiError::Upgrade(over))?;
        Ok(Self {
            upgrade,
            accept,
            subprotocol,
        })
    }

    /// Grants it: the answer for the client, after which `serve` has the socket.
    pub(crate) fn grant<F>(
        self,
        serve: impl FnOnce(ClientSocket) -> F + Send + 'static,
    ) -> HttpReply
    where
        F: Future<Output = ()> + Send,
    {
        let upgrade = self.upgrade;
        tokio::spawn(async move {
            // A client that is gone by now needs nothing.
            let Ok(connection) = upgrade.await else {
                return;
            };
            let config = WebSocketConfig::default()
                .max_message_size(Some(MESSAGE_BYTES_MAX))
                .max_frame_size(Some(MESSAGE_BYTES_MAX));
            let connection = TokioIo::new(connection);
            let socket = ClientSocket::from_raw_socket(connection, Role::Server, Some(config));
            serve(socket.await).await;
        });
        let reply = HttpReply::switching(HeaderValue::from_static("websocket"))
            .with(SEC_WEBSOCKET_ACCEPT, self.accept);
        match self.subprotocol {
            Some(name) => reply.with(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name)),
            None => reply,
        }
    }
}
