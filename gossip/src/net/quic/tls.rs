//! What a connection is made of: libp2p's TLS with the node key on both sides, small windows, and
//! nothing sent that nobody asked for.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use aws_lc_rs::hmac;
use libp2p::identity::Keypair;
use nix::sys::socket::{setsockopt, sockopt};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::KeyLog;
use quinn::rustls::client::Resumption;
use quinn::rustls::pki_types::CertificateDer;
use quinn::rustls::server::NoServerSessionStorage;
use quinn::{EndpointConfig, TransportConfig, VarInt};
use quinn_proto::RandomConnectionIdGenerator;
use sha2::{Digest as _, Sha256};

use super::config::{self, QuicConfig};
use super::congestion::Floored;
use super::handle::QuicError;
use crate::key::NodeKey;
use crate::net::keys::{self, Ed25519Signer};

/// Said in the handshake: nobody who speaks another protocol gets further than that.
const ALPN: &[u8] = b"muster/1";
/// The name in every handshake. Who is who is proven by keys.
pub(super) const SERVER_NAME: &str = "muster";
/// Sets the key of resets apart from all else that is made of the node key.
const RESET_DOMAIN: &[u8] = b"muster quic stateless reset v1";
/// Bytes of a connection id. A node has tens of links; even ten thousand, with several ids each,
/// leave most of the ids free, without which finding a new one takes for ever.
const CONNECTION_ID_BYTES: usize = 3;
/// The round trip assumed before there is one, in ms: a lost first packet is sent again after
/// three of these.
const INITIAL_RTT_MS: u64 = 50;

/// Shows session keys to nobody; libp2p's configurations write them where the environment says.
#[derive(Debug)]
struct NoKeyLog;

impl KeyLog for NoKeyLog {
    fn log(&self, _label: &str, _client_random: &[u8], _secret: &[u8]) {}
}

/// How this node dials. One certificate serves all dials, so nothing may be resumed: a ticket
/// names no peer.
pub(super) fn client(
    pair: &Keypair,
    config: &QuicConfig,
) -> Result<quinn::ClientConfig, QuicError> {
    let mut tls = libp2p_tls::make_client_config(pair, None).map_err(QuicError::tls)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.resumption = Resumption::disabled();
    tls.enable_sni = false;
    tls.key_log = Arc::new(NoKeyLog);
    let tls = QuicClientConfig::try_from(tls).map_err(QuicError::tls)?;
    let mut client = quinn::ClientConfig::new(Arc::new(tls));
    client.transport_config(Arc::new(transport(config)?));
    Ok(client)
}

/// How this node is dialed: only with a certificate.
pub(super) fn server(
    pair: &Keypair,
    config: &QuicConfig,
) -> Result<quinn::ServerConfig, QuicError> {
    let mut tls = libp2p_tls::make_server_config(pair).map_err(QuicError::tls)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.send_tls13_tickets = 0;
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    tls.key_log = Arc::new(NoKeyLog);
    let tls = QuicServerConfig::try_from(tls).map_err(QuicError::tls)?;
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(tls));
    server.transport_config(Arc::new(transport(config)?));
    server.migration(true);
    server.max_incoming(config::HANDSHAKES_MAX);
    server.incoming_buffer_size(16 << 10);
    server.incoming_buffer_size_total(1 << 20);
    Ok(server)
}

/// How packets are made. A node that restarted is the same to those who still write to a link of
/// its former life: they hear at once that there is no such link.
pub(super) fn endpoint(signer: &Ed25519Signer) -> EndpointConfig {
    let secret = Sha256::new_with_prefix(RESET_DOMAIN).chain_update(signer.seed());
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.finalize());
    let mut endpoint = EndpointConfig::new(Arc::new(key));
    // Every packet shows that it is one, so that noise can be told from packets and counted.
    endpoint.grease_quic_bit(false);
    endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(CONNECTION_ID_BYTES)));
    endpoint
}

fn transport(config: &QuicConfig) -> Result<TransportConfig, QuicError> {
    let idle = config
        .idle
        .try_into()
        .map_err(|_| QuicError::Idle(config.idle))?;
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(
            config::REQUESTS_MAX + config::MESH_STREAMS_MAX,
        ))
        .max_concurrent_uni_streams(VarInt::from_u32(config::STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(config::STREAM_WINDOW))
        .receive_window(VarInt::from_u32(config::RECEIVE_WINDOW))
        .send_window(u64::from(config::CONNECTION_WINDOW))
        .datagram_receive_buffer_size(Some(config::DATAGRAMS_IN_BYTES))
        .datagram_send_buffer_size(config::DATAGRAMS_OUT_BYTES)
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(None)
        .initial_rtt(std::time::Duration::from_millis(INITIAL_RTT_MS))
        .congestion_controller_factory(Arc::new(Floored::default()))
        .allow_spin(false);
    Ok(transport)
}

/// The socket of all links, with room for bursts where the system allows it.
pub(super) fn socket(listen: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(listen).or_else(|error| match listen.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() && no_ipv6(&error) => {
            UdpSocket::bind((Ipv4Addr::UNSPECIFIED, listen.port()))
        }
        _ => Err(error),
    })?;
    // The system's limit holds, and less room only means more loss; doctor shows the limit.
    let _ = setsockopt(&socket, sockopt::RcvBuf, &config::SOCKET_BYTES);
    let _ = setsockopt(&socket, sockopt::SndBuf, &config::SOCKET_BYTES);
    Ok(socket)
}

fn no_ipv6(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}

/// The key that the other side of a connection has proven.
pub(super) fn key_of(connection: &quinn::Connection) -> Option<NodeKey> {
    let chain = connection.peer_identity()?;
    let chain = chain.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    let certificate = libp2p_tls::certificate::parse(chain.first()?).ok()?;
    keys::node_key(&certificate.peer_id())
}

impl QuicError {
    fn tls(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Tls(Box::new(error))
    }
}
