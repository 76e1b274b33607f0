// SPDX-License-Identifier: Apache-2.0
// Every mutant meets verify: it is killed by a check that names the tensor, or it is equivalent and nobody complains.
#include "suites/mutants/mutant.hpp"

#include <algorithm>
#include <iostream>
#include <set>

#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

class Mutants : public testing::TestWithParam<MutantList> {};

TEST_P(Mutants, AreKilledByName) {
  FixtureShelf shelf;
  const std::vector<Mutant> mutants = GetParam().make();
  ASSERT_FALSE(mutants.empty());
  std::size_t killed = 0;
  std::size_t equivalent = 0;
  for (const Mutant& mutant : mutants) {
    const Fate fate = run_mutant(mutant, shelf);
    EXPECT_EQ(mutant.kind, GetParam().kind);
    EXPECT_TRUE(fate.is_as_wanted) << mutant.id << ": " << mutant.fault << "; wanted "
                                   << testing::PrintToString(mutant.checks) << " on "
                                   << testing::PrintToString(mutant.tensors) << ", findings "
                                   << testing::PrintToString(fate.findings);
    if (fate.is_as_wanted) {
      ++(mutant.equivalent.empty() ? killed : equivalent);
    }
  }
  std::cout << GetParam().kind << ": " << mutants.size() << " mutants, " << killed << " killed, " << equivalent
            << " equivalent\n";
}

TEST_P(Mutants, MeetAFixtureWithoutFindings) {
  FixtureShelf shelf;
  std::set<std::string> seen;
  for (const Mutant& mutant : GetParam().make()) {
    Mutant none;
    none.fixture = mutant.fixture;
    none.family = mutant.family;
    none.fixture.corrupt.clear();
    none.family = mutant.family;
    none.topology = mutant.topology;
    none.equivalent = "nothing is done wrong";
    const std::string path = shelf.get(none.fixture).path.string();
    if (!seen.insert(path + mutant.topology).second) {
      continue;
    }
    std::vector<std::string> findings = run_mutant(none, shelf).findings;
    std::erase_if(findings, [&mutant](const std::string& finding) {
      const std::string id = finding.substr(0, finding.find(' '));
      return std::find(mutant.fixture_findings.begin(), mutant.fixture_findings.end(), id) !=
             mutant.fixture_findings.end();
    });
    EXPECT_EQ(findings, std::vector<std::string>{}) << mutant.id;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Mutants, testing::ValuesIn(mutant_lists().begin(), mutant_lists().end()),
                         [](const auto& row) { return std::string(row.param.kind); });

TEST(MutantLists, IdsAreUnique) {
  std::set<std::string> ids;
  for (const MutantList& list : mutant_lists()) {
    for (const Mutant& mutant : list.make()) {
      EXPECT_TRUE(ids.insert(mutant.id).second) << mutant.id;
    }
  }
}

TEST(MutantLists, OneThatDoesNothingWrongSurvives) {
  FixtureShelf shelf;
  Mutant useless;
  useless.id = "useless";
  useless.fixture.family = "llama";
  useless.tensors = {"model.embed_tokens.weight"};
  EXPECT_FALSE(run_mutant(useless, shelf).is_as_wanted);
}

TEST(MutantLists, OneThatIsCalledEquivalentAndIsNotTurnsRed) {
  FixtureShelf shelf;
  Mutant loud = execution_mutants().front();
  loud.equivalent = "it is not";
  EXPECT_FALSE(run_mutant(loud, shelf).is_as_wanted);
}

}  // namespace
}  // namespace weightproof::suites::test
