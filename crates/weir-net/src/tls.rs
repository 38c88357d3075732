//! TLS between the parties of a cluster: each has a certificate of the cluster's own authority, and trusts no other authority. Also
//! [`server`], for clients without a certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

/// Where a party's certificate is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// PEM: the certificate of the authority that signs every party's.
    pub authority: PathBuf,
    /// PEM: this party's certificate, with what leads to the authority.
    pub certificate: PathBuf,
    /// PEM: its private key.
    pub key: PathBuf,
}

fn not_in(path: &Path, what: &str, error: impl std::fmt::Display) -> String {
    format!("{}: no {what} in PEM: {error}", path.display())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let said = |error| not_in(path, "certificate", error);
    let all = CertificateDer::pem_file_iter(path).map_err(said)?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(said)?;
    if all.is_empty() { Err(not_in(path, "certificate", "the file has none")) } else { Ok(all) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| not_in(path, "private key", error))
}

/// TLS of a server for arbitrary clients: files in PEM, the certificate with the chain to its authority, and the private key.
///
/// # Errors
/// As [`Tls::load`].
pub fn server(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let unfit = |error: rustls::Error| format!("{}: {error}", certificate.display());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .map_err(unfit)?
        .with_no_client_auth()
        .with_single_cert(certificates(certificate)?, private_key(key)?)
        .map_err(unfit)?;
    Ok(Arc::new(server))
}

/// TLS configuration for dialling and accepting.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// # Errors
    /// A file that is missing or does not hold what it should: which, and why.
    pub fn load(files: &Files) -> Result<Tls, String> {
        let Files { authority, certificate, key } = files;
        let mut roots = RootCertStore::empty();
        for one in certificates(authority)? {
            roots.add(one).map_err(|error| not_in(authority, "certificate", error))?;
        }
        let roots = Arc::new(roots);
        let (chain, private) = (certificates(certificate)?, private_key(key)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let unfit = |error: rustls::Error| format!("{}: {error}", certificate.display());
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unfit)?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain.clone(), private.clone_key())
            .map_err(unfit)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| format!("{}: {error}", authority.display()))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unfit)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, private)
            .map_err(unfit)?;
        Ok(Tls { client: Arc::new(client), server: Arc::new(server) })
    }

    /// `host`: the name or address that the other side's certificate must bear.
    ///
    /// # Errors
    /// The name cannot be one.
    pub fn dial(&self, host: &str) -> Result<rustls::Connection, String> {
        let name = ServerName::try_from(host.to_string())
            .map_err(|error| format!("`{host}` is no name of a host: {error}"))?;
        let mut connection =
            ClientConnection::new(self.client.clone(), name).map_err(|error| format!("TLS: {error}"))?;
        // Unsent bytes are bounded one layer above.
        connection.set_buffer_limit(None);
        Ok(connection.into())
    }

    /// # Errors
    /// The configuration's.
    pub fn accept(&self) -> Result<rustls::Connection, String> {
        let mut connection =
            ServerConnection::new(self.server.clone()).map_err(|error| format!("TLS: {error}"))?;
        connection.set_buffer_limit(None);
        Ok(connection.into())
    }
}
