//! The bytes that a session sends before, at and after the switch to TLS, without TLS itself.

use crate::client::*;
use forebay_block::DiskId;
use forebay_export::nbd::error::ProtocolError;
use forebay_export::{Access, Client, Export, Exports, Identity, Security, Session, SessionLimits, TlsNeed};

const ERR_TLS_REQD: u32 = 0x8000_0005;

fn exports(table: &[(&str, TlsNeed, &[&str])]) -> Exports {
    let mut exports = Exports::new();
    for (name, tls, names) in table {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let access = Access { nbd: true, network: true, tls: *tls, names };
        let (name, description) = ((*name).to_owned(), String::new());
        let export =
            Export { name, disk: DiskId(1), size_bytes: 4096, read_only: false, tag: None, description, access };
        exports.add(export).unwrap();
    }
    exports
}

/// A session over TCP to which the server offers TLS, after its greeting.
fn offered() -> Session {
    let client = Client { network: true, security: Security::Offered };
    let mut session = Session::with(SessionLimits::default(), client);
    let greeting = session.outgoing().pending_bytes();
    session.sent(greeting);
    assert_eq!(session.receive(&3u32.to_be_bytes()), 4);
    session
}

/// Passes bytes to the session; returns the bytes of its answer.
fn say(session: &mut Session, exports: &Exports, bytes: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    assert_eq!(session.receive(bytes), bytes.len());
    assert!(session.next(exports)?.is_none());
    let mut slices = [std::io::IoSlice::new(&[]); 8];
    let used = session.outgoing().gather(&mut slices);
    let answer = slices[..used].iter().flat_map(|slice| slice.to_vec()).collect();
    session.sent(session.outgoing().pending_bytes());
    Ok(answer)
}

/// The kinds of the replies to an option.
fn kinds(session: &mut Session, exports: &Exports, kind: u32, data: &[u8]) -> Vec<u32> {
    let answer = say(session, exports, &option(kind, data)).unwrap();
    let mut out = &answer[..];
    let mut kinds = Vec::new();
    while !out.is_empty() {
        let reply = read_option_reply(&mut out);
        assert_eq!(reply.option, kind);
        kinds.push(reply.kind);
    }
    kinds
}

fn secure(session: &mut Session, exports: &Exports, names: &[&str]) {
    assert_eq!(kinds(session, exports, OPT_STARTTLS, &[]), [ACK]);
    assert!(session.is_starting_tls() && !session.wants_input());
    assert!(session.take_unread().is_empty());
    session.secured(Identity { names: names.iter().map(|name| (*name).to_owned()).collect(), by_key: false });
}

#[test]
fn without_tls_to_be_had_nothing_says_that_it_is_required() {
    let exports = exports(&[("open", TlsNeed::Never, &[]), ("shut", TlsNeed::Always, &[])]);
    let client = Client { network: true, security: Security::Plain };
    let mut session = Session::with(SessionLimits::default(), client);
    session.sent(session.outgoing().pending_bytes());
    session.receive(&3u32.to_be_bytes());
    assert_eq!(kinds(&mut session, &exports, OPT_STARTTLS, &[]), [ERR_UNSUP]);
    assert_eq!(kinds(&mut session, &exports, OPT_LIST, &[]), [2, ACK]);
    assert_eq!(kinds(&mut session, &exports, OPT_INFO, &go_data("shut", &[])), [ERR_UNKNOWN]);
}

#[test]
fn where_all_is_for_tls_nothing_else_is_answered_before_it() {
    let exports = exports(&[("a", TlsNeed::Network, &[]), ("b", TlsNeed::Always, &["x"])]);
    let mut session = offered();
    for (kind, data) in [
        (OPT_LIST, vec![]),
        (OPT_INFO, go_data("a", &[])),
        (OPT_GO, go_data("nowhere", &[])),
        (OPT_STRUCTURED, vec![]),
        (OPT_EXTENDED, vec![]),
        (OPT_SET_META, meta_data("a", &["base:allocation"])),
        (77, vec![]),
    ] {
        assert_eq!(kinds(&mut session, &exports, kind, &data), [ERR_TLS_REQD], "option {kind}");
    }
    assert_eq!(kinds(&mut session, &exports, OPT_STARTTLS, b"x"), [ERR_INVALID]);
    secure(&mut session, &exports, &[]);
    assert_eq!(kinds(&mut session, &exports, OPT_STARTTLS, &[]), [ERR_INVALID]);
    assert_eq!(kinds(&mut session, &exports, OPT_LIST, &[]), [2, ACK], "b is not for this client");
    assert_eq!(kinds(&mut session, &exports, OPT_GO, &go_data("b", &[])), [ERR_UNKNOWN]);
    assert_eq!(kinds(&mut session, &exports, OPT_GO, &go_data("a", &[])), [3, ACK]);
    assert!(!session.in_handshake());
    // The protocol has no reply that refuses this option.
    let name = option(OPT_EXPORT_NAME, b"a");
    assert_eq!(say(&mut offered(), &exports, &name), Err(ProtocolError::NeedsTls));
}

#[test]
fn where_some_is_for_tls_the_rest_is_to_be_had_without() {
    let exports = exports(&[("secret", TlsNeed::Always, &["alice"]), ("open", TlsNeed::Never, &[])]);
    let mut session = offered();
    assert_eq!(kinds(&mut session, &exports, OPT_LIST, &[]), [2, ACK]);
    assert_eq!(kinds(&mut session, &exports, OPT_INFO, &go_data("open", &[])), [3, ACK]);
    // A missing export gets the same answer as one that requires TLS.
    for name in ["secret", "nowhere"] {
        assert_eq!(kinds(&mut session, &exports, OPT_INFO, &go_data(name, &[])), [ERR_TLS_REQD], "{name}");
    }
    assert_eq!(kinds(&mut session, &exports, OPT_STRUCTURED, &[]), [ACK]);
    assert_eq!(kinds(&mut session, &exports, OPT_SET_META, &meta_data("secret", &[])), [ERR_UNKNOWN]);
    let name = option(OPT_EXPORT_NAME, b"secret");
    assert_eq!(say(&mut session, &exports, &name), Err(ProtocolError::NeedsTls));
    let mut session = offered();
    assert_eq!(say(&mut session, &exports, &option(OPT_EXPORT_NAME, b"")).unwrap()[..8], 4096u64.to_be_bytes());
    assert_eq!(session.export(), Some(1), "the first one that this client may use");
    let mut session = offered();
    secure(&mut session, &exports, &["host", "alice"]);
    assert_eq!(kinds(&mut session, &exports, OPT_LIST, &[]), [2, 2, ACK]);
    assert_eq!(kinds(&mut session, &exports, OPT_GO, &go_data("secret", &[])), [3, ACK]);
}

#[test]
fn what_was_agreed_in_the_clear_is_forgotten() {
    let exports = exports(&[("disk", TlsNeed::Never, &[])]);
    let mut session = offered();
    assert_eq!(kinds(&mut session, &exports, OPT_STRUCTURED, &[]), [ACK]);
    assert_eq!(kinds(&mut session, &exports, OPT_SET_META, &meta_data("disk", &["base:allocation"])), [4, ACK]);
    secure(&mut session, &exports, &[]);
    // Contexts require structured replies, whose negotiation STARTTLS has reset.
    let data = meta_data("disk", &["base:allocation"]);
    assert_eq!(kinds(&mut session, &exports, OPT_SET_META, &data), [ERR_INVALID]);
    assert_eq!(kinds(&mut session, &exports, OPT_GO, &go_data("disk", &[])), [3, ACK]);
    let answer = say(&mut session, &exports, &request(Shape::Simple, BLOCK_STATUS, 0, 7, 0, 512, &[])).unwrap();
    assert_eq!(answer[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 22], "a simple reply: EINVAL");
}

/// CVE-2021-3716 and similar: options that an attacker on the path inserts after STARTTLS must not count once TLS is
/// active.
#[test]
fn what_follows_starttls_in_the_clear_is_no_option() {
    let exports = exports(&[("disk", TlsNeed::Never, &[])]);
    let mut session = offered();
    let behind = [option(OPT_STRUCTURED, &[]), option(OPT_GO, &go_data("disk", &[]))].concat();
    let answer = say(&mut session, &exports, &[option(OPT_STARTTLS, &[]), behind.clone()].concat()).unwrap();
    assert_eq!(read_option_reply(&mut &answer[..]).kind, ACK);
    assert_eq!(answer.len(), 20, "one answer");
    assert_eq!(session.take_unread(), behind, "it goes to TLS, where it is no handshake");
    session.secured(Identity::default());
    assert_eq!(say(&mut session, &exports, &[]).unwrap(), []);
    assert!(session.in_handshake());
}

#[test]
fn a_stopping_server_begins_no_tls() {
    let exports = exports(&[("disk", TlsNeed::Never, &[])]);
    let mut session = offered();
    session.begin_shutdown();
    assert_eq!(kinds(&mut session, &exports, OPT_STARTTLS, &[]), [ERR_SHUTDOWN]);
    assert!(!session.is_starting_tls());
}
