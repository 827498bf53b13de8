//! Fetching against servers on the loopback interface that do what real ones do on bad days.
//!
//! Whatever they do, a file ends complete or absent. Nothing here needs a network.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use flate2::{Compression, write::GzEncoder};
use hindsight_data::{
    DataError, DownloadSource, Original,
    fetch::{Fetched, FileStatus, check, fetch_from},
};
use sha2::{Digest, Sha256};

const NAMES: [&str; 2] = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"];

/// Content of a small stand-in, too irregular to compress much.
fn content(name: &str) -> Vec<u8> {
    (0..5_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8 ^ name.as_bytes()[6]).collect()
}

fn files() -> [Original; 2] {
    NAMES.map(|name| {
        let hex: String = Sha256::digest(content(name)).iter().map(|b| format!("{b:02x}")).collect();
        Original { name, as_is: false, bytes: content(name).len() as u64, sha256: hex.leak() }
    })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

struct Server {
    source: DownloadSource,
    requests: Arc<AtomicUsize>,
}

impl Server {
    /// Answers the request for a path with the raw bytes of `reply`, and hangs up.
    fn new(reply: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mnist/", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                counter.fetch_add(1, Ordering::SeqCst);
                answer(stream, &reply);
            }
        });
        Self { source: DownloadSource::Mirror(url.leak()), requests }
    }

    /// Has every file.
    fn good() -> Self {
        Self::new(|path| ok(&packed(path)))
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, reply: impl Fn(&str) -> Vec<u8>) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        request.push(byte[0]);
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap_or_default();
    // The client may have hung up first, as it should when a body is too long.
    let _ = stream.write_all(&reply(path));
}

fn response(status: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn ok(body: &[u8]) -> Vec<u8> {
    response("200 OK", body.len(), body)
}

/// The right compressed file for a path such as `/mnist/train-images-idx3-ubyte.gz`.
fn packed(path: &str) -> Vec<u8> {
    let name = path.strip_prefix("/mnist/").and_then(|path| path.strip_suffix(".gz"));
    gzip(&content(name.expect("a path below the mirror")))
}

/// One server for each way to fail, with a word of the reason that is to be given.
fn bad_servers() -> Vec<(Server, &'static str)> {
    let corrupt = |path: &str| {
        let mut plain = content(path.trim_start_matches("/mnist/").trim_end_matches(".gz"));
        plain[100] ^= 1;
        plain
    };
    let flipped = |path: &str| {
        let mut body = packed(path);
        let middle = body.len() / 2;
        body[middle] ^= 0xff;
        body
    };
    let truncated = |path: &str| {
        let body = packed(path);
        response("200 OK", body.len(), &body[..body.len() / 2])
    };
    let page = b"<!DOCTYPE html><html><body>please log in</body></html>";
    vec![
        (Server::new(truncated), "disconnected"),
        (Server::new(move |path| ok(&gzip(&corrupt(path)))), "found SHA-256"),
        (Server::new(move |path| ok(&corrupt(path))), "found SHA-256"),
        (Server::new(move |path| ok(&flipped(path))), "`train-images-idx3-ubyte`: "),
        (Server::new(|path| ok(&packed(path)[..100])), "`train-images-idx3-ubyte`: "),
        (Server::new(|_| response("404 Not Found", 4, b"gone")), "404"),
        (Server::new(|_| response("500 Internal Server Error", 4, b"oops")), "500"),
        (Server::new(move |_| ok(page)), "found 54 bytes, expected 5000"),
        (Server::new(|_| ok(b"")), "found 0 bytes, expected 5000"),
        (Server::new(|_| ok(&gzip(&vec![0; 1 << 24]))), "more than the expected 5000 bytes"),
        (Server::new(|_| ok(&vec![7; 1 << 20])), "more than the expected 5000 bytes"),
        (Server::new(|_| Vec::new()), "disconnected"),
        (Server::new(|_| b"not HTTP at all\r\n\r\n".to_vec()), "`train-images-idx3-ubyte.gz`: "),
    ]
}

fn fetch(sources: &[DownloadSource], folder: &Path) -> Result<Fetched, DataError> {
    fetch_from(sources, &files(), folder, &mut |_| {})
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn assert_complete(folder: &Path) {
    assert_eq!(names(folder), NAMES);
    for name in NAMES {
        assert!(fs::read(folder.join(name)).unwrap() == content(name), "{name}");
    }
}

#[test]
fn files_are_fetched_and_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("a").join("mnist");
    let server = Server::good();
    let fetched = fetch(&[server.source], &folder).unwrap();
    assert_eq!(fetched, Fetched { folder: folder.clone(), new: 2, kept: 0 });
    assert_complete(&folder);
    assert_eq!(server.requests(), 2);
}

#[test]
fn a_bad_source_gives_way_to_the_next() {
    for (bad, _) in bad_servers() {
        let dir = tempfile::tempdir().unwrap();
        let good = Server::good();
        fetch(&[bad.source, good.source], dir.path()).unwrap();
        assert_complete(dir.path());
        assert_eq!(good.requests(), 2);
        assert!(bad.requests() <= 2, "more than one retry");
    }
}

#[test]
fn when_all_sources_fail_each_is_named_with_its_reason_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let servers = bad_servers();
    let sources: Vec<DownloadSource> = servers.iter().map(|(server, _)| server.source).collect();
    let error = fetch(&sources, dir.path()).unwrap_err();
    let message = error.to_string();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 1 + servers.len());
    assert_eq!(lines[0], "cannot fetch `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` from any source");
    for (line, (server, reason)) in lines[1..].iter().zip(&servers) {
        assert!(line.contains(&server.source.to_string()) && line.contains(reason), "{line}");
    }
    assert!(error.hint().unwrap().contains(&format!("into `{}`", dir.path().display())));
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_server_that_is_not_there_is_passed_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mnist/", listener.local_addr().unwrap());
    drop(listener);
    let dir = tempfile::tempdir().unwrap();
    fetch(&[DownloadSource::Mirror(url.leak()), Server::good().source], dir.path()).unwrap();
    assert_complete(dir.path());
}

#[test]
fn a_failure_that_passes_is_tried_again_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = AtomicUsize::new(0);
    let server = Server::new(move |path| match first.fetch_add(1, Ordering::SeqCst) {
        0 => response("503 Service Unavailable", 0, b""),
        _ => ok(&packed(path)),
    });
    fetch(&[server.source], dir.path()).unwrap();
    assert_complete(dir.path());
    assert_eq!(server.requests(), 3);
}

#[test]
fn the_next_source_is_asked_only_for_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let half = Server::new(|path| match path.contains("images") {
        true => ok(&packed(path)),
        false => response("404 Not Found", 0, b""),
    });
    let good = Server::good();
    fetch(&[half.source, good.source], dir.path()).unwrap();
    assert_complete(dir.path());
    assert_eq!((half.requests(), good.requests()), (2, 1));
}

#[test]
fn a_redirect_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let DownloadSource::Mirror(target) = Server::good().source else { unreachable!() };
    let server = Server::new(move |path| {
        let name = path.trim_start_matches("/mnist/");
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {target}{name}\r\n");
        (head + "Content-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
    });
    fetch(&[server.source], dir.path()).unwrap();
    assert_complete(dir.path());
}

#[test]
fn a_redirect_in_circles_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|path| {
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {path}\r\n");
        (head + "Content-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
    });
    let error = fetch(&[server.source], dir.path()).unwrap_err();
    assert!(error.to_string().contains("redirect"), "{error}");
}

#[test]
fn originals_in_place_are_not_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("train-images.idx3-ubyte.gz"), gzip(&content(NAMES[0]))).unwrap();
    let server = Server::good();
    let fetched = fetch(&[server.source], dir.path()).unwrap();
    assert_eq!((fetched.new, fetched.kept, server.requests()), (1, 1, 1));
    let fetched = fetch(&[server.source], dir.path()).unwrap();
    assert_eq!((fetched.new, fetched.kept, server.requests()), (0, 2, 1));
}

#[test]
fn a_file_of_the_user_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAMES[1]);
    fs::write(&path, b"mine").unwrap();
    let server = Server::good();
    let error = fetch(&[server.source], dir.path()).unwrap_err();
    assert!(matches!(error, DataError::Occupied { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_place_that_cannot_be_written_is_known_before_the_first_request() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), b"").unwrap();
    let server = Server::good();
    let error = fetch(&[server.source], &dir.path().join("file").join("mnist")).unwrap_err();
    assert!(matches!(error, DataError::Io { .. }), "{error}");
    assert_eq!(server.requests(), 0);
}

#[test]
fn an_archive_is_fetched_kept_and_checked_as_it_is() {
    let packed = gzip(&content(NAMES[0]));
    let hex: String = Sha256::digest(&packed).iter().map(|b| format!("{b:02x}")).collect();
    let archive =
        Original { name: "all.tar.gz", as_is: true, bytes: packed.len() as u64, sha256: hex.leak() };
    let dir = tempfile::tempdir().unwrap();
    let body = packed.clone();
    let server = Server::new(move |path| match path {
        "/mnist/all.tar.gz" => ok(&body),
        _ => response("404 Not Found", 0, b""),
    });
    let fetched = fetch_from(&[server.source], &[archive], dir.path(), &mut |_| {}).unwrap();
    assert_eq!((fetched.new, fetched.kept), (1, 0));
    let path = dir.path().join("all.tar.gz");
    assert_eq!(fs::read(&path).unwrap(), packed);
    assert_eq!(check(&archive, dir.path()).unwrap(), FileStatus::Original(path.clone()));
    // The same content, packed in another way, is another archive.
    fs::write(&path, [packed, gzip(b"")].concat()).unwrap();
    assert!(matches!(check(&archive, dir.path()).unwrap(), FileStatus::Different { .. }));
}

#[test]
fn progress_tells_source_file_and_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::good();
    let mut seen: Vec<(String, u64, Option<u64>)> = Vec::new();
    fetch_from(&[server.source], &files(), dir.path(), &mut |progress| {
        assert_eq!(progress.source, server.source);
        seen.push((progress.file.into(), progress.bytes, progress.total));
    })
    .unwrap();
    for name in NAMES {
        let of_file: Vec<_> = seen.iter().filter(|(file, ..)| file == name).collect();
        let length = gzip(&content(name)).len() as u64;
        assert_eq!(of_file.first().unwrap().1, 0);
        assert_eq!((of_file.last().unwrap().1, of_file.last().unwrap().2), (length, Some(length)));
        assert!(of_file.is_sorted_by_key(|(_, bytes, _)| bytes));
    }
}

#[test]
fn a_check_tells_originals_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let [images, _] = files();
    assert_eq!(check(&images, dir.path()).unwrap(), FileStatus::Missing);
    let path = dir.path().join("train-images-idx3-ubyte.gz");
    fs::write(&path, gzip(&content(NAMES[0]))).unwrap();
    assert_eq!(check(&images, dir.path()).unwrap(), FileStatus::Original(path.clone()));
    fs::write(&path, gzip(b"other")).unwrap();
    assert!(matches!(check(&images, dir.path()).unwrap(), FileStatus::Different { .. }));
    fs::write(&path, &gzip(b"other")[..12]).unwrap();
    let error = check(&images, dir.path()).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}
