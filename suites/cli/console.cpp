// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "reports/json.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::size_t k_buffer_bytes = 1 << 16;
// A path has up to 4096 bytes, and is told whole.
constexpr std::size_t k_message_max = 16384;

bool has_text(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool is_dumb_terminal() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::strcmp(term, "dumb") == 0;
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno == EPIPE) {
        throw BrokenPipe{};
      }
      ErrorFacts facts;
      facts.file = "standard output";
      facts.hint = "send the output somewhere that can be written";
      throw Error(ErrorCode::io_error, std::string("cannot write to standard output: ") + std::strerror(errno), facts);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string_view escape_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::strong:
      return "\x1b[1m";
    case Tone::muted:
    case Tone::skip:
      return "\x1b[2m";
    case Tone::pass:
      return "\x1b[32m";
    case Tone::warn:
      return "\x1b[33m";
    case Tone::fail:
      return "\x1b[31m";
    case Tone::error:
      return "\x1b[35m";
  }
  return "";
}

}  // namespace

std::string error_document(const Error& error) {
  const ErrorFacts& facts = error.facts();
  const auto text_or_null = [](std::string_view text) {
    return text.empty() ? reports::Value() : reports::Value(text);
  };
  reports::ErrorRecord record;
  record.code = to_string(error.code());
  record.error_class = format_name_of(error.code());
  record.message = error.message();
  record.file = facts.file;
  record.keys = facts.keys;
  record.expected = text_or_null(facts.expected);
  record.actual = text_or_null(facts.actual);
  if (facts.rank) {
    record.rank = *facts.rank;
  }
  record.hint = facts.hint;
  return reports::to_json(reports::to_value(record), true);
}

Console::Console() : can_draw_(::isatty(STDERR_FILENO) == 1 && !is_dumb_terminal()) {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
    width_ = std::min<unsigned>(size.ws_col, 120);
  }
  set_color(ColorChoice::automatic);
}

Console::~Console() = default;

void Console::set_color(ColorChoice choice) {
  if (choice != ColorChoice::automatic) {
    has_color_ = choice == ColorChoice::always;
  } else if (has_text("NO_COLOR")) {
    has_color_ = false;
  } else if (has_text("CLICOLOR_FORCE") && std::strcmp(std::getenv("CLICOLOR_FORCE"), "0") != 0) {
    has_color_ = true;
  } else {
    has_color_ = ::isatty(STDOUT_FILENO) == 1 && !is_dumb_terminal();
  }
}

void Console::write_stdout(std::string_view text) { write_all(STDOUT_FILENO, text); }

void Console::out(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() > k_buffer_bytes) {
    flush();
  }
}

void Console::line(std::string_view text) {
  buffer_ += text;
  out("\n");
}

void Console::flush() {
  if (buffer_.empty()) {
    return;
  }
  // Emptied first: what could not be written is not tried again.
  const std::string text = std::move(buffer_);
  buffer_.clear();
  write_stdout(text);
}

std::string Console::styled(Tone tone, std::string_view text) const {
  const std::string_view escape = has_color_ ? escape_of(tone) : std::string_view{};
  if (escape.empty()) {
    return std::string(text);
  }
  std::string out(escape);
  out += text;
  out += "\x1b[0m";
  return out;
}

void Console::note(std::string_view text) {
  end_progress();
  std::string line(text);
  line += '\n';
  try {
    write_all(STDERR_FILENO, line);
  } catch (...) {  // stderr is gone: there is nobody left to tell
  }
}

void Console::error(const Error& error, std::string_view verb) {
  std::string line = "weightproof";
  if (!verb.empty()) {
    line += ' ';
    line += verb;
  }
  line += ": " + std::string(to_string(error.code())) + ": " + printable(error.message(), k_message_max);
  if (!error.facts().hint.empty()) {
    line += "; " + printable(error.facts().hint, k_message_max);
  }
  note(line);
  if (!is_json_) {
    return;
  }
  out(error_document(error) + "\n");
}

void Console::progress(std::string_view what, std::uint64_t done, std::uint64_t total) {
  if (!can_draw_ || is_quiet_) {
    return;
  }
  const std::unique_lock lock(progress_mutex_, std::try_to_lock);
  const auto now = std::chrono::steady_clock::now();
  if (!lock.owns_lock() || now - last_drawn_ < std::chrono::milliseconds(100)) {
    return;
  }
  last_drawn_ = now;
  has_drawn_ = true;
  // Of bytes, of ranks or of cases: what share is done is right for all of them.
  std::string line = "\r\x1b[K" + std::string(what);
  if (total > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    line += ' ' + std::to_string(static_cast<int>(share * 100)) + " %";
  }
  try {
    write_all(STDERR_FILENO, line);
  } catch (...) {  // a picture that cannot be drawn is no failure
  }
}

void Console::end_progress() {
  const std::lock_guard lock(progress_mutex_);
  if (has_drawn_) {
    has_drawn_ = false;
    try {
      write_all(STDERR_FILENO, "\r\x1b[K");
    } catch (...) {  // as above
    }
  }
}

}  // namespace weightproof::suites::cli
