// SPDX-License-Identifier: Apache-2.0
// Which test shows what: the 47 traps of mappings and every row of the failure catalogue about keys, ties and layout.
// The table is itself tested: no row is missing, and every test and planted fault that it names exists.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

struct Row {
  const char* subject;             ///< "trap 1", "S1"
  std::vector<const char*> shown;  ///< "Suite.Name", "fault NAME"
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"trap 1", {"TrapValues.T01_GateFirstConcatenatedTransposed"}},
      {"trap 2", {"TrapValues.T02_SquareShapesHideAMissingTranspose"}},
      {"trap 3", {"TrapValues.T03_InterleavedGateAndUpStayInterleaved"}},
      {"trap 4", {"TrapValues.T04_NibblesLowFirstAndTheSignOfZero"}},
      {"trap 5", {"TrapValues.T05_BlocksAreOutByInAndTransposed"}},
      {"trap 6", {"TrapValues.T06_T08_TheInverseScaleMultipliesAndIsNeverLost"}},
      {"trap 7", {"TrapValues.T07_T44_OneRoundingInF32AndTheScaleInItsStoredDtype"}},
      {"trap 8", {"TrapValues.T06_T08_TheInverseScaleMultipliesAndIsNeverLost"}},
      {"trap 9", {"TrapValues.T09_BlockScalesOfAnUnalignedShard", "Parts.OfQuantizedModels"}},
      {"trap 10", {"TrapValues.T10_UnevenExpertsAreRefused"}},
      {"trap 11", {"TrapValues.T11_TwoFusedOrdersOfQueryKeyValue"}},
      {"trap 12", {"TrapValues.T12_GatedQueriesStayByHead"}},
      {"trap 13", {"TrapValues.T13_GroupedRowsBesideChannelsThatAreNot"}},
      {"trap 14", {"TrapValues.T14_AFoldedScaleCannotBeTakenOutAgain"}},
      {"trap 15", {"TrapValues.T15_ATiedHeadIsOneStorage", "fault untied_head_missing", "fault tied_head_differs"}},
      {"trap 16", {"TrapValues.T16_TheNamespaceDoesNotHangOnTheLastKey"}},
      {"trap 17", {"TrapValues.T17_RenamesAreWholeNames"}},
      {"trap 18", {"TrapValues.T18_WhatLiesBelowExpertsNeedBeNone"}},
      {"trap 19", {"TrapValues.T19_TheLeafDAndNoOther"}},
      {"trap 20", {"TrapValues.T20_LayersAreNumbers", "TrapValues.T20_ExpertsStandInTheOrderOfTheirNumbers"}},
      {"trap 21", {"TrapValues.T21_StateIsNeverNarrowed", "fault state_stored_narrow"}},
      {"trap 22", {"TrapValues.T22_ACopyOfADestinationIsNoticed", "Load.SentinelDoesNotSurviveAndPoisonDoesNotShow"}},
      {"trap 23", {"TrapValues.T23_ATransposedStorageIsWrittenInTheOrderOfTheFile"}},
      {"trap 24", {"TrapValues.T24_ScalarsKeepTheirShape"}},
      {"trap 25", {"TrapValues.T25_ASecondAttemptStartsAnew"}},
      {"trap 26", {"TrapValues.T26_APartialExpertSetNamesTheLostMatrix", "fault dropped_expert_down"}},
      {"trap 27", {"TrapValues.T27_NestedNamespacesLoseExactlyOneLevel"}},
      {"trap 28", {"TrapValues.T28_WholeSegmentsAreCompared"}},
      {"trap 29", {"TrapValues.T29_EndsOfTheExponentScale"}},
      {"trap 30", {"TrapValues.T30_RouterBiasesStayApart"}},
      {"trap 31",
       {"TrapValues.T31_T34_ErnieBiasesAreMergedAndExtentsOfOneStay", "Traps.T31_ExpertBiasesAreMergedGateFirst"}},
      {"trap 32", {"TrapValues.T32_WhatIsQuantizedIsToldByTheFile"}},
      {"trap 33", {"TrapValues.T33_ListsThatCountFromOne"}},
      {"trap 34", {"TrapValues.T31_T34_ErnieBiasesAreMergedAndExtentsOfOneStay", "Traps.T34_ExtentsOfOneStay"}},
      {"trap 35", {"TrapValues.T35_TheTwinOfAPredictionLayerIsNotTheEmbedding"}},
      {"trap 36", {"TrapValues.T36_UngatedExpertsAreAsWideAsOne"}},
      {"trap 37",
       {"TrapValues.T37_T47_TheStorageOfExpertsFollowsFromTheWorldThatIsGiven", "Storage.WholeInputProduct"}},
      {"trap 38", {"TrapValues.T38_OtherStoragesKeepTheOrientationOfTheFile"}},
      {"trap 39", {"TrapValues.T39_EmptyPartsAreComplete"}},
      {"trap 40", {"TrapValues.T40_SuffixesDoNotCatchOneAnother"}},
      {"trap 41", {"TrapValues.T41_ListingKeysAllocatesNoTensor"}},
      {"trap 42", {"TrapValues.T42_AbsentOptionalTensorsTakeTheirDeclaredValue"}},
      {"trap 43", {"TrapValues.T43_LayersOfOneModelDifferInShape"}},
      {"trap 44", {"TrapValues.T07_T44_OneRoundingInF32AndTheScaleInItsStoredDtype"}},
      {"trap 45", {"LoraVote.IsCountedAsTheTableSays", "LoraMatch.MixedVotesAreRefusedWithBothTensors"}},
      {"trap 46", {"TrapValues.T46_TheFoldTakesTheScaleInItsStoredDtype"}},
      {"trap 47", {"TrapValues.T37_T47_TheStorageOfExpertsFollowsFromTheWorldThatIsGiven"}},
      {"S1", {"fault dropped_norm"}},
      {"S2", {"TrapValues.T22_ACopyOfADestinationIsNoticed", "Load.SentinelDoesNotSurviveAndPoisonDoesNotShow"}},
      {"S3", {"fault renamed_key"}},
      {"S4", {"fault lost_prefix"}},
      {"S5", {"CatalogueRows.S5_PackedNamesWithoutASchemeAreAFailure", "fault mixed_expert_layout"}},
      {"S6", {"CatalogueRows.S6_AQuantizedHeadIsDecodedLikeAnyOther"}},
      {"S7", {"fault dropped_matrix", "RoundTrip.TheVerbWritesTheSameFiles"}},
      {"S8", {"fault extra_key", "fault layer_too_many", "fault bias_without_flag"}},
      {"S9", {"fault dropped_layer", "fault tensor_not_in_shard", "RoundTrip.TheVerbWritesTheSameFiles"}},
      {"S10", {"fault doubled_segment", "TrapValues.T17_RenamesAreWholeNames"}},
      {"S11", {"TrapValues.T17_RenamesAreWholeNames"}},
      {"S12", {"RoundTrip.TheVerbWritesTheSameFiles"}},
      {"S13", {"CatalogueRows.S13_ExportedNamesAreThoseOfTheFile"}},
      {"S14", {"fault two_spellings", "TrapValues.T27_NestedNamespacesLoseExactlyOneLevel"}},
      {"S15", {"fault wrapper_compiled", "fault wrapper_parallel", "fault wrapper_on_some", "fault wrapper_adapter"}},
      {"S16", {"fault dropped_final_norm", "RankLayout.StagesHoldTheirLayersAndATiedHeadStandsOnBothEnds"}},
      {"S17", {"fault phantom_name", "fault empty_dtype"}},
      {"S18", {"CatalogueRows.S18_UnknownNamesAreExportedOrReported"}},
      {"S19", {"CatalogueRows.S19_PresenceIsToldPerInput"}},
      {"S20", {"fault tied_head_stored"}},
      {"S21", {"fault tied_head_stored", "TrapValues.T15_ATiedHeadIsOneStorage"}},
      {"S22", {"CatalogueRows.S19_PresenceIsToldPerInput"}},
      {"S23", {"CatalogueRows.S23_AnOverwrittenHeadIsNamed"}},
      {"S24", {"CatalogueRows.S24_TheAliasOfAHeadIsTold"}},
      {"S25", {"MisplacedRows.AreNamedByTheCheckOfTheirKindAlone"}},
      {"S26", {"Parallel.FusedProjectionsAreCutByComponent", "Fused.ComponentsAreCutByThemselves"}},
      {"S27", {"fault shape_transposed", "Parallel.FusedProjectionsAreCutByComponent"}},
      {"S28", {"RankLayout.ExpertsLiveOnTheirOwnMesh"}},
      {"S29", {"fault vocabulary_padded"}},
      {"S30", {"fault norm_offset_added"}},
      {"S31", {"Lora.PackedFactorsMergeToTheSameDeltaOfEachExpert"}},
      {"S32", {"fault swapped_norms", "Manifest.FindsWhatOnlyTheTwinShows"}},
      {"S33", {"TrapValues.T11_TwoFusedOrdersOfQueryKeyValue", "Parallel.FusedProjectionsAreCutByComponent"}},
      {"S34", {"fault squeezed_dimension", "fault shape_flattened"}},
      {"S35", {"TrapValues.T01_GateFirstConcatenatedTransposed"}},
  };
  return all;
}

// "Suite.Name" of every test of the tree.
std::set<std::string> tests_of_the_tree() {
  std::set<std::string> names;
  const std::regex pattern(R"((?:^|\n)TEST(?:_P|_F)?\((\w+),\s*(\w+)\))");
  for (const char* room : {"adapters", "fixtures", "loader", "reference", "reports", "suites"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(WEIGHTPROOF_SOURCE_DIR) / room)) {
      if (entry.path().extension() != ".cpp" || entry.path().parent_path().filename() != "tests") {
        continue;
      }
      const std::string text = read_file(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
        names.insert((*at)[1].str() + "." + (*at)[2].str());
      }
    }
  }
  return names;
}

TEST(Catalogue, EveryTrapAndRowIsThereOnce) {
  std::set<std::string> wanted;
  for (int trap = 1; trap <= 47; ++trap) {
    wanted.insert("trap " + std::to_string(trap));
  }
  for (int row = 1; row <= 35; ++row) {
    wanted.insert("S" + std::to_string(row));
  }
  std::set<std::string> found;
  for (const Row& row : rows()) {
    EXPECT_TRUE(found.insert(row.subject).second) << row.subject;
    EXPECT_FALSE(row.shown.empty()) << row.subject;
  }
  EXPECT_EQ(found, wanted);
}

TEST(Catalogue, EveryTestThatItNamesExists) {
  const std::set<std::string> tests = tests_of_the_tree();
  EXPECT_GT(tests.size(), 400U);
  EXPECT_EQ(tests.count("Catalogue.EveryTestThatItNamesExists"), 1U);
  EXPECT_EQ(tests.count("Catalogue.NoSuchTest"), 0U);
  for (const Row& row : rows()) {
    for (const std::string name : row.shown) {
      if (name.starts_with("fault ")) {
        EXPECT_NE(fixtures::find_corruption(name.substr(6)), nullptr) << row.subject << ": " << name;
      } else {
        EXPECT_EQ(tests.count(name), 1U) << row.subject << ": " << name;
      }
    }
  }
}

// Faults say which row of the catalogue they are made from: none of those is missing here.
TEST(Catalogue, FaultsOfItsRowsAreNamed) {
  for (const fixtures::CorruptionOperator& fault : fixtures::corruption_operators()) {
    const std::string rule(fault.rule);
    for (const Row& row : rows()) {
      const std::regex word("(^|[ ,])" + std::string(row.subject) + "($|[ ,])");
      if (std::regex_search(rule, word)) {
        EXPECT_FALSE(row.shown.empty()) << row.subject << " has fault " << fault.name;
      }
    }
  }
}

// Writes a fixture whose stored names are changed.
std::filesystem::path write_renamed(const TemporaryDirectory& directory, const std::string& family,
                                    const std::function<std::string(std::string)>& rename) {
  fixtures::GenerateOptions options;
  options.family = family;
  const fixtures::GeneratedCheckpoint made = fixtures::plan_checkpoint(options);
  std::filesystem::create_directories(directory / "model");
  write_file(directory / "model" / "config.json", *made.config);
  fixtures::FileSpec spec;
  for (const fixtures::GeneratedTensor& tensor : made.tensors) {
    spec.tensors.push_back(
        {rename(tensor.tensor.key), tensor.tensor.dtype, tensor.tensor.shape, fixtures::payload_of(tensor)});
  }
  fixtures::write_safetensors(directory / "model" / "model.safetensors", spec);
  return directory / "model";
}

std::string replaced(std::string key, const std::string& from, const std::string& to) {
  const std::size_t at = key.find(from);
  return at == std::string::npos ? key : key.replace(at, from.size(), to);
}

TEST(CatalogueRows, S5_PackedNamesWithoutASchemeAreAFailure) {
  const TemporaryDirectory directory;
  const auto path = write_renamed(directory, "qwen3_moe", [](const std::string& key) {
    return key.find(".experts.") == std::string::npos ? key : replaced(key, ".weight", ".weights_in_packs");
  });
  const reports::Report report = verify(path, {});
  const reports::CheckRecord& missing = record_of(report, "keys.missing");
  EXPECT_EQ(missing.status, Status::fail);
  EXPECT_EQ(record_of(report, "keys.unexpected").status, Status::fail);
  // One finding pairs the two sides.
  EXPECT_NE(missing.explanation.find("perhaps the same under another name"), std::string::npos) << missing.explanation;
  EXPECT_EQ(record_of(report, "value.exact").status, Status::skip);
}

TEST(CatalogueRows, S6_AQuantizedHeadIsDecodedLikeAnyOther) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.family = "llama_nf4";
  fixtures::generate(options, directory / "model");
  const reports::Report report = verify(directory / "model", {});
  EXPECT_EQ(findings_of(report), std::vector<std::string>{});
  EXPECT_EQ(record_of(report, "value.exact").status, Status::pass);
  EXPECT_EQ(record_of(report, "keys.unexpected").status, Status::pass);  // nothing is left unread
}

TEST(CatalogueRows, S13_ExportedNamesAreThoseOfTheFile) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.family = "ling_v2";
  const fixtures::GeneratedCheckpoint made = fixtures::generate(options, directory / "model");
  const ProcessResult result =
      run_tool({"export", (directory / "model").string(), "--out", (directory / "back").string()});
  ASSERT_EQ(result.status, 0) << result.err;
  const storage::Checkpoint back = storage::open_checkpoint(directory / "back", {});
  EXPECT_EQ(back.catalog.size(), made.tensors.size());
  EXPECT_NE(back.catalog.find("model.word_embeddings.weight"), nullptr);
  EXPECT_EQ(back.catalog.find("model.embed_tokens.weight"), nullptr);  // the native name
  EXPECT_NE(back.catalog.find("model.layers.0.attention.query_key_value.weight"), nullptr);
}

TEST(CatalogueRows, S18_UnknownNamesAreExportedOrReported) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.corrupt = "extra_key";
  const auto made = fixtures::generate(options, directory / "model");
  ASSERT_FALSE(made.subjects.empty());
  const reports::Report report = verify(directory / "model", {});
  EXPECT_EQ(record_of(report, "keys.unexpected").status, Status::fail);
  const ProcessResult result =
      run_tool({"export", (directory / "model").string(), "--out", (directory / "back").string()});
  if (result.status == 0) {
    const storage::Checkpoint back = storage::open_checkpoint(directory / "back", {});
    EXPECT_NE(back.catalog.find(made.subjects.front()), nullptr);
  } else {
    EXPECT_NE(result.err.find(made.subjects.front()), std::string::npos) << result.err;
  }
}

TEST(CatalogueRows, S19_PresenceIsToldPerInput) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.tie = fixtures::TieMode::untied;
  fixtures::generate(options, directory / "untied");
  options.tie = fixtures::TieMode::tied;
  fixtures::generate(options, directory / "tied");
  const ProcessResult result = run_tool({"diff", (directory / "untied").string(), (directory / "tied").string()});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("lm_head.weight"), std::string::npos) << result.out;
}

TEST(CatalogueRows, S23_AnOverwrittenHeadIsNamed) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.tie = fixtures::TieMode::untied;
  fixtures::generate(options, directory / "model");
  const ProcessResult recorded =
      run_tool({"manifest", (directory / "model").string(), "--out", (directory / "manifest.json").string()});
  ASSERT_EQ(recorded.status, 0) << recorded.err;
  options.seed = 1;
  const fixtures::GeneratedCheckpoint other = fixtures::plan_checkpoint(options);
  fixtures::FileSpec spec;
  options.seed = 0;
  for (const fixtures::GeneratedTensor& tensor : fixtures::plan_checkpoint(options).tensors) {
    spec.tensors.push_back({tensor.tensor.key, tensor.tensor.dtype, tensor.tensor.shape, fixtures::payload_of(tensor)});
  }
  for (const fixtures::GeneratedTensor& tensor : other.tensors) {
    for (fixtures::StoredTensor& row : spec.tensors) {
      if (tensor.tensor.key == "lm_head.weight" && row.name == tensor.tensor.key) {
        row.payload = fixtures::payload_of(tensor);  // initialised again
      }
    }
  }
  fixtures::write_safetensors(directory / "model" / "model.safetensors", spec);
  VerifyOptions check;
  check.manifest_file = (directory / "manifest.json").string();
  const reports::Report report = verify(directory / "model", check);
  const reports::CheckRecord& record = record_of(report, "value.manifest");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_EQ(record.subjects, std::vector<std::string>{"lm_head.weight"});
}

TEST(CatalogueRows, S24_TheAliasOfAHeadIsTold) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.tie = fixtures::TieMode::tied;
  fixtures::generate(options, directory / "model");
  const reports::Report report = verify(directory / "model", {});
  const reports::CheckRecord& record = record_of(report, "tied.alias");
  EXPECT_EQ(record.status, Status::pass);
  EXPECT_NE(record.explanation.find("lm_head.weight"), std::string::npos) << record.explanation;
  EXPECT_NE(record.explanation.find("model.embed_tokens.weight"), std::string::npos) << record.explanation;
}

}  // namespace
}  // namespace weightproof::suites::test
