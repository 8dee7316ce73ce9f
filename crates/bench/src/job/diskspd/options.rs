//! Parsing DiskSpd's options.

use super::units::{PLACE, count, size_bytes, wrong};
use crate::job::error::{JobError, quote};
use crate::job::validate::MAX_CHOICES;
use forebay_block::mistakes::cut;

const MAX_SECONDS: u32 = 366 * 86_400;

/// The zones of `-rd`, by where they end.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Percent of the accesses, and of the target.
    Percent(Vec<(u32, u32)>),
    /// Percent of the accesses, and bytes of the target.
    Absolute(Vec<(u32, u64)>),
}

/// The limit of `-g` for each thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Bytes a millisecond.
    BytesPerMs(u32),
    /// I/Os a second.
    Iops(u32),
}

/// The stride of `-s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stride {
    /// Distance in bytes.
    pub bytes: u64,
    /// Whether threads share one offset.
    pub interlocked: bool,
}

/// The options as given, without DiskSpd's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    pub block_bytes: Option<u32>,
    pub base: Option<u64>,
    pub length: Option<u64>,
    pub end: Option<u64>,
    pub create_bytes: Option<u64>,
    pub duration_s: Option<u32>,
    pub warmup_s: Option<u32>,
    pub cooldown_s: Option<u32>,
    pub threads: Option<u32>,
    pub total_threads: Option<u32>,
    pub outstanding: Option<u32>,
    pub outstanding_per_thread: Option<u32>,
    pub limit: Option<Limit>,
    pub burst_ios: Option<u32>,
    pub pause_ms: Option<u32>,
    pub random_align: Option<u64>,
    pub random_percent: Option<u32>,
    pub distribution: Option<Distribution>,
    pub stride: Option<Stride>,
    pub thread_stride: Option<u64>,
    pub write_percent: Option<u32>,
    pub cpus: Vec<u32>,
    pub no_affinity: bool,
    /// `Some(false)` if an option explicitly enables caching.
    pub uncached: Option<bool>,
    pub write_through: bool,
    /// `Some(None)` for `-z` without a number.
    pub seed: Option<Option<u64>>,
    pub zero_buffers: bool,
    pub random_buffers: bool,
    pub latency: bool,
    pub xml: bool,
    pub notes: Vec<String>,
}

impl Options {
    /// Options with only the `-b` of the words, to which other sizes may refer.
    pub fn with_block_size(words: &[String]) -> Result<Self, JobError> {
        let mut options = Self::default();
        // A size in blocks within -b itself refers to the default block, as in DiskSpd.
        for text in words.iter().filter_map(|word| word.strip_prefix("-b")) {
            let bytes = size_bytes("-b", text, u64::from(options.block()))?;
            let bytes = u32::try_from(bytes).map_err(|_| wrong("-b", format!("{bytes} bytes; that is too large")))?;
            options.block_bytes = Some(bytes);
        }
        Ok(options)
    }

    /// Size of an I/O in bytes; DiskSpd's default if none was given.
    pub fn block(&self) -> u32 {
        self.block_bytes.unwrap_or(64 << 10)
    }

    fn size(&self, option: &str, text: &str) -> Result<u64, JobError> {
        size_bytes(option, text, u64::from(self.block()))
    }

    fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Parses one word of the command line.
    pub fn take(&mut self, word: &str) -> Result<(), JobError> {
        let Some(option) = word.strip_prefix('-') else {
            return self.take_target(word);
        };
        let mut rest = option.chars();
        let Some(letter) = rest.next() else {
            return Err(JobError::form(PLACE, "a lone `-`: write a letter behind it"));
        };
        let value = rest.as_str();
        match letter {
            'b' => {}
            'B' => return self.take_bounds(value),
            'c' => self.create_bytes = Some(self.size("-c", value)?),
            'C' => self.cooldown_s = Some(count("-C", value, 0, MAX_SECONDS)?),
            'd' => self.duration_s = Some(count("-d", value, 1, MAX_SECONDS)?),
            'W' => self.warmup_s = Some(count("-W", value, 0, MAX_SECONDS)?),
            'f' if value.starts_with(|c: char| c.is_ascii_digit()) => self.end = Some(self.size("-f", value)?),
            'f' if !value.is_empty() && value.chars().all(|c| "rst".contains(c)) => {
                self.note(format!("-f{value}: access hints for the file are not given here."));
            }
            'F' => self.total_threads = Some(count("-F", value, 1, u32::MAX)?),
            't' => self.threads = Some(count("-t", value, 1, u32::MAX)?),
            'o' => self.outstanding = Some(count("-o", value, 1, u32::MAX)?),
            'O' => self.outstanding_per_thread = Some(count("-O", value, 1, u32::MAX)?),
            'g' => self.limit = Some(limit(value)?),
            'i' => self.burst_ios = Some(count("-i", value, 1, u32::MAX)?),
            'j' => self.pause_ms = Some(count("-j", value, 1, u32::MAX)?),
            'h' if value.is_empty() => return self.take_caching("h", "-h"),
            'S' => return self.take_caching(value, "-S"),
            'L' if value.is_empty() => self.latency = true,
            'r' => return self.take_random(value),
            's' => return self.take_stride(value),
            'T' => self.thread_stride = Some(self.size("-T", value)?).filter(|&bytes| bytes > 0),
            'w' => self.write_percent = Some(count("-w", value, 0, 100)?),
            'a' => return self.take_affinity(value),
            'n' if value.is_empty() => self.no_affinity = true,
            'z' if value.is_empty() => self.seed = Some(None),
            'z' => self.seed = Some(Some(u64::from(count("-z", value, 0, u32::MAX)?))),
            'Z' => return self.take_content(value),
            'R' => return self.take_output(value),
            _ => return self.take_without_effect(letter, value, word),
        }
        Ok(())
    }

    fn take_target(&mut self, word: &str) -> Result<(), JobError> {
        let is_disk = word.strip_prefix('#').is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()));
        if is_disk {
            self.note(format!("{word} selects no disk here: --target decides what is measured."));
            return Ok(());
        }
        let reason = format!(
            "{} would be a target to DiskSpd; here --target decides what is measured. \
             If it is the value of the option before it, write it without the blank, as -b4k",
            quote(word)
        );
        Err(JobError::form(PLACE, reason))
    }

    fn take_bounds(&mut self, value: &str) -> Result<(), JobError> {
        let (base, length) = match value.split_once(':') {
            Some((base, length)) => (base, Some(length)),
            None => (value, None),
        };
        self.base = Some(self.size("-B", base)?);
        self.length = length.map(|length| self.size("-B", length)).transpose()?;
        Ok(())
    }

    /// Parses `-S` with its letters; `-h` is `-Sh`. Letters must not contradict each other or earlier ones.
    fn take_caching(&mut self, letters: &str, option: &str) -> Result<(), JobError> {
        for letter in if letters.is_empty() { "u" } else { letters }.chars() {
            let (uncached, through) = match letter {
                'b' => (Some(false), false),
                'u' => (Some(true), false),
                'h' => (Some(true), true),
                'w' => (None, true),
                'r' => {
                    self.note("-Sr: there are no remote caches here; direct I/O is used.");
                    (Some(true), false)
                }
                'm' => {
                    return Err(JobError::unsupported(PLACE, "-Sm (memory-mapped I/O)", "use -Sb, -Su, -Sw or -Sh"));
                }
                other => {
                    return Err(wrong(option, format!("{:?}; the letters are b, h, r, u and w", other)));
                }
            };
            let again = (uncached.is_some() && self.uncached.is_some()) || (through && self.write_through);
            if again {
                return Err(wrong(option, "it contradicts or repeats an earlier -h or -S: give one of them"));
            }
            self.uncached = uncached.or(self.uncached);
            self.write_through |= through;
        }
        Ok(())
    }

    fn take_random(&mut self, value: &str) -> Result<(), JobError> {
        if let Some(percent) = value.strip_prefix('s') {
            self.random_percent = Some(count("-rs", percent, 1, 100)?);
        } else if let Some(zones) = value.strip_prefix('d') {
            self.distribution = Some(distribution(zones, self.block())?);
        } else {
            let align = if value.is_empty() { u64::from(self.block()) } else { self.size("-r", value)? };
            if align == 0 {
                return Err(wrong("-r", "an alignment of 0; at least 1"));
            }
            self.random_align = Some(align);
        }
        Ok(())
    }

    fn take_stride(&mut self, value: &str) -> Result<(), JobError> {
        let (interlocked, align) = value.strip_prefix('i').map_or((false, value), |align| (true, align));
        let bytes = if align.is_empty() { u64::from(self.block()) } else { self.size("-s", align)? };
        self.stride = Some(Stride { bytes, interlocked });
        Ok(())
    }

    fn take_affinity(&mut self, value: &str) -> Result<(), JobError> {
        let list_wrong = || wrong("-a", format!("{}; write CPU numbers, as -a0,1,2", quote(value)));
        let mut parts = value.split(',').peekable();
        if let Some(group) = parts.peek().and_then(|part| part.strip_prefix('g')) {
            if !matches!(group, "" | "0") {
                return Err(JobError::unsupported(
                    PLACE,
                    "a processor group above 0 in -a",
                    "number the CPUs as Linux does, as -a64,65",
                ));
            }
            parts.next();
        }
        for part in parts.filter(|_| !matches!(value, "" | "g")) {
            let cpu: u32 = part.parse().map_err(|_| list_wrong())?;
            self.cpus.push(cpu);
        }
        Ok(())
    }

    fn take_content(&mut self, value: &str) -> Result<(), JobError> {
        match value {
            "" => self.zero_buffers = true,
            "r" => self.random_buffers = true,
            _ => {
                let (size, file) = value.split_once(',').map_or((value, None), |(size, file)| (size, Some(file)));
                if self.size("-Z", size)? == 0 {
                    return Err(wrong("-Z", "a buffer of 0 bytes; at least 1"));
                }
                if let Some(file) = file {
                    self.note(format!("-Z: the content of {} is not used; writes carry random data.", quote(file)));
                }
                self.random_buffers = true;
            }
        }
        Ok(())
    }

    fn take_output(&mut self, value: &str) -> Result<(), JobError> {
        match value {
            "text" => {}
            "xml" => {
                self.xml = true;
                self.note("-Rxml: there is no XML here; --output json writes all results.");
            }
            _ if value.starts_with('p') => {
                return Err(JobError::unsupported(PLACE, "-Rp (show the profile, run nothing)", "leave it out"));
            }
            _ => return Err(wrong("-R", format!("{}; text or xml", quote(value)))),
        }
        Ok(())
    }

    /// Notes options that change nothing measured here; other options are unknown.
    fn take_without_effect(&mut self, letter: char, value: &str, word: &str) -> Result<(), JobError> {
        let said = quote(word);
        let why = match (letter, value) {
            ('D', _) => "intervals are always recorded here",
            ('e', _) => "there is no Windows event tracing here",
            ('I', _) => "I/O priorities are not set here",
            ('l', "") => "buffers are not placed in large pages here",
            ('N', _) => "there is no memory-mapped I/O here",
            ('p', "") => "I/Os in flight of one thread follow each other here and do not begin at one offset",
            ('P', _) => "progress is shown by time here",
            ('v', "" | "s") => "all results are always shown",
            ('x', "") => "there are no completion routines here; see how it waited beside the results",
            ('y', _) => "there are no named events here",
            (':', _) => "there are no experiments of DiskSpd here",
            ('X', _) => {
                return Err(JobError::unsupported(PLACE, "-X (profiles in XML)", "write a job file in TOML"));
            }
            ('?', _) => return Err(JobError::unsupported(PLACE, "-?", "see `forebay bench --help`")),
            _ => return Err(unknown(letter, word)),
        };
        self.note(format!("{said} has no effect: {why}."));
        Ok(())
    }
}

const KNOWN: &str = "aBbCcDdeFfgIijhLlNnOoPpRrSsTtvWwXxyZz";

fn unknown(letter: char, word: &str) -> JobError {
    // A known letter gets here only because of its value. Otherwise the letter in the other case is the most likely typing error.
    let flipped = if letter.is_ascii_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
    let first = word.trim_start_matches('-').chars().next();
    let near = [Some(letter), Some(flipped), first].into_iter().flatten().find(|c| KNOWN.contains(*c));
    let nearest = near.map(|c| format!("-{c}"));
    JobError::Unknown { place: PLACE.to_owned(), what: "option", word: cut(word), nearest }
}

fn limit(value: &str) -> Result<Limit, JobError> {
    match value.strip_suffix('i') {
        Some(iops) => count("-g", iops, 1, u32::MAX).map(Limit::Iops),
        None => count("-g", value, 1, u32::MAX).map(Limit::BytesPerMs),
    }
}

/// Parses `pct90/10:0/10` or `abs90/10G:10/1T`.
fn distribution(text: &str, block: u32) -> Result<Distribution, JobError> {
    let form = || wrong("-rd", format!("{}; write pct90/10:10/90 or abs90/10G:10/90G", quote(text)));
    let (kind, zones) = text.split_at_checked(3).ok_or_else(form)?;
    if zones.split(':').count() > MAX_CHOICES {
        return Err(wrong("-rd", format!("more than {MAX_CHOICES} zones")));
    }
    let pairs = zones.split(':').map(|zone| {
        let (accesses, size) = zone.split_once('/').ok_or_else(form)?;
        Ok((count("-rd", accesses, 0, 100)?, size))
    });
    match kind {
        "pct" => pairs
            .map(|pair| pair.and_then(|(accesses, size)| Ok((accesses, count("-rd", size, 1, 100)?))))
            .collect::<Result<_, _>>()
            .map(Distribution::Percent),
        "abs" => pairs
            .map(|pair| pair.and_then(|(accesses, size)| Ok((accesses, size_bytes("-rd", size, u64::from(block))?))))
            .collect::<Result<_, _>>()
            .map(Distribution::Absolute),
        _ => Err(form()),
    }
}
