//! The TLS settings of a client.

use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::Verifier;

/// TLS settings that trust what the operating system trusts, or Mozilla's certificates where it has none.
///
/// The system's certificates are read once per process.
pub(crate) fn trusting() -> Result<ClientConfig, rustls::Error> {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(provider.clone()).or_else(|_| {
        Verifier::new_with_extra_roots(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned(), provider.clone())
    })?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(CONFIG.get_or_init(|| config).clone())
}

/// TLS settings that trust nobody, for a client that speaks plain HTTP and never needs them.
pub(crate) fn unused() -> Result<ClientConfig, rustls::Error> {
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_settings_can_be_made_without_a_process_wide_provider() {
        assert_eq!(super::trusting().unwrap().alpn_protocols.len(), 2);
        assert!(super::unused().unwrap().alpn_protocols.is_empty());
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }
}
