//! A client's SQL session. See [`client`] for the border to the server.
pub mod client;
