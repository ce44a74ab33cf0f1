//! The run's start instant as `sys.when` shows it.

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// An instant as RFC 3339 text in UTC, from milliseconds since 1970.
///
/// Trailing zeros of the fraction are dropped, a fraction of zero altogether. Years outside 0000 to 9999 are clamped to
/// the first or last instant of that range.
pub(crate) fn rfc3339(unix_milliseconds: i64) -> String {
    // 0000-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z
    let instant = unix_milliseconds.clamp(-62_167_219_200_000, 253_402_300_799_999);
    let (days, in_day) = (instant.div_euclid(DAY), instant.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let (hours, minutes, seconds) = (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1000 % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}");
    let fraction = in_day % 1000;
    if fraction > 0 {
        text.push_str(format!(".{fraction:03}").trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// The proleptic Gregorian date of a day counted from 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years are counted from March, so that the leap day is the last of its year; an era has 400 of them.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn prints_instants() {
        for (instant, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (789, "1970-01-01T00:00:00.789Z"),
            (780, "1970-01-01T00:00:00.78Z"),
            (700, "1970-01-01T00:00:00.7Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_796_068_800_000, "2026-11-30T20:00:00Z"),
            (i64::MIN, "0000-01-01T00:00:00Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(instant), text);
        }
    }
}
