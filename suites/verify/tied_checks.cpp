// SPDX-License-Identifier: Apache-2.0
// tied.*: head and embedding. The config's flag says whether they are one tensor, the family says whether the flag may
// say so, the files say what is stored.
#include <array>
#include <map>

#include "suites/support/text.hpp"
#include "suites/verify/pairs.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

std::string no_answer(const Context& context) {
  return context.schema ? context.incomplete_keys_reason() : context.no_schema_reason;
}

bool is_head(std::string_view key) { return key.find("lm_head") != std::string_view::npos && key.ends_with(".weight"); }

CheckRecord flag(Context& context) {
  CheckBuilder builder("tied.flag");
  if (const Error* conflict = context.family_error(ErrorCode::tied_flag_conflict)) {
    return failed_record("tied.flag", *conflict);
  }
  if (!context.schema) {
    return builder.skip(context.no_schema_reason);
  }
  if (!context.checkpoint.config) {
    return builder.skip("there is no config.json");
  }
  const adapters::TieFlag found = adapters::tie_flag(*context.checkpoint.config);
  builder.examined(1);
  if (found.value) {
    return builder.evidence("level", found.level).evidence("value", *found.value).pass();
  }
  builder.subject("tie_word_embeddings");
  for (const std::string& text : context.schema->defaulted()) {
    if (text.find("tie_word_embeddings") != std::string::npos) {
      return builder.note("the flag is absent from config.json and was taken as " + text);
    }
  }
  return builder.note(std::string("the flag is absent from config.json; head and embedding are taken as ") +
                      (context.form->is_tied ? "one tensor" : "two tensors"));
}

CheckRecord head_missing(Context& context) {
  CheckBuilder builder("tied.head_missing");
  if (context.adapter) {
    return builder.skip("a low-rank adapter has no head of its own");
  }
  if (const std::string reason = no_answer(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const Schema& schema = *context.schema;
  const plan::KeyCoverage& coverage = context.coverage();
  builder.examined(1);
  for (const plan::TieVerdict& verdict : coverage.ties) {
    const Tie& tie = schema.ties()[verdict.tie];
    if (verdict.state == plan::TieState::missing) {
      const std::string source(tie.stored_source == k_no_id ? std::string_view{}
                                                            : schema.stored_tensors()[tie.stored_source].key);
      return builder.subject(tie.stored_alias)
          .code("TIED_SOURCE_MISSING")
          .hint("one of the two names has to be stored")
          .fail("neither " + printable(tie.stored_alias) + " nor the tensor it is tied to, " + printable(source) +
                ", is stored");
    }
  }
  for (const StoredId id : coverage.missing) {
    const std::string_view key = schema.stored_tensors()[id].key;
    if (is_head(key)) {
      return builder.subject(key)
          .code("MISSING_KEYS")
          .hint("store the head, or set tie_word_embeddings where the model really shares it")
          .fail(printable(key) + " is missing and not tied: an untied head is never made up from the embedding");
    }
  }
  return builder.pass();
}

// The tie whose two names are both stored with their headers read; null where there is none.
const plan::TieVerdict* stored_twice(Context& context) {
  for (const plan::TieVerdict& verdict : context.coverage().ties) {
    if (verdict.state == plan::TieState::stored_twice) {
      return &verdict;
    }
  }
  return nullptr;
}

// Factors that an adapter stores twice and a group of experts holds once.
CheckRecord shared_factors(Context& context) {
  CheckBuilder builder("tied.mismatch");
  const Schema& schema = *context.schema;
  const auto& row_of = context.coverage().row_of;
  const auto rows = context.keys().tensors();
  std::map<std::pair<NativeId, std::uint64_t>, StoredId> primaries;
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind == BindingKind::primary) {
      primaries.emplace(std::pair(binding.native, binding.native_offset), binding.stored);
    }
  }
  std::uint64_t compared = 0;
  std::string message;
  for (const Binding& binding : schema.bindings()) {
    const auto primary = primaries.find({binding.native, binding.native_offset});
    if (binding.kind != BindingKind::alias || primary == primaries.end() || row_of[binding.stored] == plan::k_no_row ||
        row_of[primary->second] == plan::k_no_row) {
      continue;
    }
    const StoredTensor& source = rows[row_of[primary->second]];
    const StoredTensor& alias = rows[row_of[binding.stored]];
    const PairComparison pair = compare_pair(context, source, alias);
    if (!pair.undecided.empty()) {
      return builder.skip(pair.undecided);
    }
    ++compared;
    if (pair.is_equal) {
      continue;
    }
    builder.subject(alias.key).code("TIED_VALUES_DIFFER");
    if (message.empty()) {
      builder.expected(pair.expected).actual(pair.actual);
      message = printable(alias.key) + " should equal " + printable(source.key) + " (" + schema.rule(binding.rule) +
                ") but differs: " + pair.difference;
    }
  }
  if (compared == 0) {
    return builder.skip("no factor is stored twice");
  }
  return builder.examined(compared)
      .hint("experts in groups hold one factor A for gate and up: adapters trained with two cannot be loaded there")
      .fail_if_subjects(message);
}

CheckRecord mismatch(Context& context) {
  CheckBuilder builder("tied.mismatch");
  if (const std::string reason = no_answer(context); !reason.empty()) {
    return builder.skip(reason);
  }
  if (context.adapter) {
    return shared_factors(context);
  }
  if (context.schema->ties().empty()) {
    return builder.skip("head and embedding are two tensors");
  }
  const plan::TieVerdict* verdict = stored_twice(context);
  if (verdict == nullptr) {
    return builder.examined(context.schema->ties().size()).note("the shared tensor is stored once");
  }
  const auto rows = context.keys().tensors();
  const PairComparison pair = compare_pair(context, rows[verdict->source_row], rows[verdict->alias_row]);
  builder.examined(1);
  if (!pair.undecided.empty()) {
    return builder.skip(pair.undecided);
  }
  if (pair.is_equal) {
    return builder.pass();
  }
  builder.subject(rows[verdict->alias_row].key).subject(rows[verdict->source_row].key);
  builder.code("TIED_VALUES_DIFFER").expected(pair.expected).actual(pair.actual);
  if (pair.differing > 0) {
    builder.evidence("differing", pair.differing)
        .evidence("elements", pair.elements)
        .evidence("coordinate", reports::Value::array_of(pair.coordinate.span()));
  }
  return builder.hint("drop the head if the model shares it, or set tie_word_embeddings to false if it does not")
      .fail(printable(rows[verdict->alias_row].key) + " is tied to " + printable(rows[verdict->source_row].key) +
            " but differs: " + pair.difference);
}

CheckRecord redundant(Context& context) {
  CheckBuilder builder("tied.redundant");
  if (const std::string reason = no_answer(context); !reason.empty()) {
    return builder.skip(reason);
  }
  if (context.schema->ties().empty()) {
    return builder.skip("head and embedding are two tensors");
  }
  const plan::TieVerdict* verdict = stored_twice(context);
  builder.examined(context.schema->ties().size());
  if (verdict == nullptr) {
    return builder.pass();
  }
  const auto rows = context.keys().tensors();
  const StoredTensor& alias = rows[verdict->alias_row];
  const PairComparison pair = compare_pair(context, rows[verdict->source_row], alias);
  if (!pair.undecided.empty()) {
    return builder.skip(pair.undecided);
  }
  if (!pair.is_equal) {
    return builder.skip("the two copies differ (tied.mismatch)");
  }
  return builder.subject(alias.key)
      .evidence("redundant_bytes", alias.bytes)
      .note(printable(alias.key) + " repeats the embedding: " + grouped(alias.bytes) + " redundant bytes");
}

CheckRecord alias(Context& context) {
  CheckBuilder builder("tied.alias");
  if (const std::string reason = no_answer(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const Schema& schema = *context.schema;
  if (schema.ties().empty()) {
    return builder.skip("head and embedding are two tensors");
  }
  std::string text;
  for (const plan::TieVerdict& verdict : context.coverage().ties) {
    const Tie& tie = schema.ties()[verdict.tie];
    const std::string source = tie.stored_source == k_no_id ? std::string("its source")
                                                            : printable(schema.stored_tensors()[tie.stored_source].key);
    const std::string head = printable(tie.stored_alias);
    builder.subject(tie.stored_alias);
    text += text.empty() ? "" : "; ";
    switch (verdict.state) {
      case plan::TieState::stored_once:
        text += head + " is " + source + ", stored once";
        break;
      case plan::TieState::stored_twice:
        text += head + " is " + source + ", stored twice";
        break;
      case plan::TieState::from_alias:
        text += source + " is read from " + head + ", the only name stored";
        break;
      case plan::TieState::missing:
        text += "neither " + head + " nor " + source + " is stored";
        break;
      case plan::TieState::outside_selection:
        text += head + " and " + source + " are outside the selection";
        break;
    }
  }
  return builder.examined(schema.ties().size()).note(text + "; exports leave the head out");
}

constexpr std::array k_checks = {
    VerifyCheck{"tied.flag", &flag},         VerifyCheck{"tied.head_missing", &head_missing},
    VerifyCheck{"tied.mismatch", &mismatch}, VerifyCheck{"tied.redundant", &redundant},
    VerifyCheck{"tied.alias", &alias},
};

}  // namespace

std::span<const VerifyCheck> tied_checks() { return k_checks; }

}  // namespace weightproof::suites
