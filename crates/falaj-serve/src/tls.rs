//! TLS for the API over TCP: who the service is.

use super::secret::warn_of_readers;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Who the service is: a chain of certificates and the key of the first, in PEM.
///
/// # Errors
/// Which file it is that cannot be read, or that they do not belong together.
pub(super) fn identity(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let of_certificate = || format!("--tls-cert {}", certificate.display());
    let of_key = || format!("--tls-key {}", key.display());
    let chain: Vec<CertificateDer<'_>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(of_certificate)?;
    ensure!(
        !chain.is_empty(),
        "{}: no certificate is in it; it has to be PEM (BEGIN CERTIFICATE)",
        of_certificate()
    );
    warn_of_readers("--tls-key", key);
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| {
        format!("{}: it has to be a private key in PEM, without a password", of_key())
    })?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
        .with_context(|| {
            format!("{} and {} cannot be used together", of_certificate(), of_key())
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
