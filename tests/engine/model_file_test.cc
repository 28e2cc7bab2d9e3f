#include "widelane/engine/model_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "harness.h"
#include "model_bytes.h"

namespace widelane {
namespace {

using test::BytesOf;
using test::FileBytes;
using test::MetadataFor;
using test::TensorMember;

absl::StatusOr<std::shared_ptr<const Model>> Read(const std::string& bytes) {
  // A copy of the exact size, so that the address sanitizer sees a read past the end.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return ReadModelBytes(reinterpret_cast<const std::byte*>(exact.data()), exact.size(), "the file");
}

// Two features, one output: weights 0.5 and -2, bias 0.25.
const std::string& SmallTensors() {
  static const std::string tensors = BytesOf<float>({0.5F, -2.0F}) + BytesOf<double>({0.25});
  return tensors;
}
const char kWeight[] = R"("weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
const char kBias[] = R"("bias":{"dtype":"F64","shape":[1],"data_offsets":[8,16]})";

std::string SmallHeader(const std::string& metadata) {
  return absl::StrCat("{", metadata, ",", kWeight, ",", kBias, "}");
}

// A header of these members in front of the small model's tensors.
std::string WithMembers(const std::string& members) {
  return FileBytes(absl::StrCat("{", MetadataFor(SmallTensors()), ",", members, "}"), SmallTensors());
}

// Messages may travel as proto text: printable, of bounded length.
void ExpectProperMessage(const absl::Status& status) {
  EXPECT_LT(status.message().size(), 1000U) << status;
  for (const char c : status.message()) EXPECT_TRUE(c >= 32 && c < 127) << "byte " << static_cast<int>(c);
}

void ExpectRefused(const std::string& bytes, const std::string& words) {
  SCOPED_TRACE(words);
  // Of this process alone: a busy machine is not the reader's fault.
  const std::clock_t start = std::clock();
  const auto model = Read(bytes);
  const std::clock_t taken = std::clock() - start;
  ASSERT_FALSE(model.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(model.status()) || absl::IsDataLoss(model.status())) << model.status();
  EXPECT_TRUE(absl::StartsWith(model.status().message(), "the file: ")) << model.status();
  EXPECT_TRUE(absl::StrContains(model.status().message(), words)) << model.status();
  EXPECT_LT(taken, CLOCKS_PER_SEC / 10);
  ExpectProperMessage(model.status());
}

void ExpectSameModel(const Model& a, const Model& b) {
  EXPECT_EQ(a.features(), b.features());
  EXPECT_EQ(a.outputs(), b.outputs());
  ASSERT_EQ(a.weight_type(), b.weight_type());
  ASSERT_EQ(a.weight_bytes(), b.weight_bytes());
  EXPECT_EQ(std::memcmp(a.weights(), b.weights(), a.weight_bytes()), 0);
  EXPECT_EQ(a.bias(), b.bias());
  EXPECT_EQ(a.scale(), b.scale());
  EXPECT_EQ(a.link(), b.link());
  EXPECT_EQ(a.labels(), b.labels());
  EXPECT_EQ(a.unknown_features(), b.unknown_features());
  EXPECT_EQ(a.tie(), b.tie());
  EXPECT_EQ(a.source(), b.source());
  EXPECT_EQ(a.max_weight(), b.max_weight());
}

class ModelFile : public ::testing::Test {
 protected:
  ModelFile() {
    char name[] = "/tmp/widelane_model_file_test_XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~ModelFile() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name = "model.safetensors") const { return folder_ + "/" + name; }
  static std::string Contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void Put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  std::string folder_;
};

TEST_F(ModelFile, RoundTripsEveryWeightTypeAndLink) {
  test::Random random(1);
  for (const WeightType type : {WeightType::kFloat32, WeightType::kFloat16, WeightType::kBfloat16, WeightType::kInt8}) {
    for (const uint32_t outputs : {1U, 2U, 5U}) {
      for (const Link link : {Link::kIdentity, Link::kSigmoid, Link::kSoftmax, Link::kOneVsRest, Link::kExp}) {
        if (outputs == 1 && (link == Link::kSoftmax || link == Link::kOneVsRest)) continue;
        const test::ModelSpec spec{.features = 37, .outputs = outputs, .type = type, .link = link};
        SCOPED_TRACE(test::Describe(spec));
        ModelParts parts = test::RandomParts(spec, random);
        for (uint32_t k = 0; k < std::max(outputs, 2U); ++k)
          parts.labels.push_back(absl::StrCat("class \"", k, "\" \u00e4"));
        parts.tie = Tie::kPositive;
        parts.unknown_features = UnknownFeatures::kIgnore;
        parts.source = "a tool 1.2, \"L2R_LR\"";
        const auto model = *Model::Create(std::move(parts));
        ASSERT_TRUE(WriteModelFile(*model, Path()).ok());
        const auto read = ReadModelFile(Path());
        ASSERT_TRUE(read.ok()) << read.status();
        ExpectSameModel(*model, **read);
        EXPECT_EQ((*read)->digest().size(), 71U);
      }
    }
  }
}

TEST_F(ModelFile, RoundTripsNoFeatures) {
  ModelParts parts;
  parts.weights = *ModelParts::AllocateWeights(0, 1, WeightType::kFloat32);
  parts.bias = {-0.5};
  const auto model = *Model::Create(std::move(parts));
  ASSERT_TRUE(WriteModelFile(*model, Path()).ok());
  const auto read = ReadModelFile(Path());
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSameModel(*model, **read);
}

TEST_F(ModelFile, LeavesNothingBesideTheFileAndReplacesWhole) {
  ASSERT_TRUE(WriteModelFile(*test::R4(), Path()).ok());
  const std::string first = Contents(Path());
  ASSERT_TRUE(WriteModelFile(*test::R4(UnknownFeatures::kIgnore), Path()).ok());
  EXPECT_NE(Contents(Path()), first);
  const auto files = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(ModelFile, WritesEvenSourcesThatAreNotText) {
  ModelParts parts = test::RandomParts({}, *std::make_unique<test::Random>(3));
  parts.source = "tool \xff\xfe";
  const auto model = *Model::Create(std::move(parts));
  ASSERT_TRUE(WriteModelFile(*model, Path()).ok());
  EXPECT_TRUE(ReadModelFile(Path()).ok());
}

TEST_F(ModelFile, NamesThePathOfFilesThatCannotBeHad) {
  const auto missing = ReadModelFile(Path("none"));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(missing.status().message(), Path("none"))) << missing.status();
  const auto folder = ReadModelFile(folder_);
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kInvalidArgument) << folder.status();
  if (geteuid() != 0) {
    Put(Path(), "x");
    chmod(Path().c_str(), 0);
    EXPECT_EQ(ReadModelFile(Path()).status().code(), absl::StatusCode::kPermissionDenied);
  }
  EXPECT_FALSE(WriteModelFile(*test::R4(), folder_ + "/none/model.safetensors").ok());
}

TEST_F(ModelFile, NeverHangsOnAPipe) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadModelFile(Path("pipe")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelFile, EveryTruncationIsRefused) {
  ASSERT_TRUE(WriteModelFile(*test::R4(), Path()).ok());
  const std::string whole = Contents(Path());
  ASSERT_TRUE(Read(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto model = Read(whole.substr(0, size));
    ASSERT_FALSE(model.ok()) << "cut to " << size;
    ExpectProperMessage(model.status());
  }
  Put(Path(), whole.substr(0, whole.size() - 1));
  const auto cut = ReadModelFile(Path());
  EXPECT_TRUE(absl::StrContains(cut.status().message(), Path())) << cut.status();
}

TEST_F(ModelFile, EveryFlippedTensorBitIsNoticed) {
  ASSERT_TRUE(WriteModelFile(*test::R4(), Path()).ok());
  const std::string whole = Contents(Path());
  const size_t tensors = 8 + 16;  // one bias, four weights
  for (size_t bit = 0; bit < tensors * 8; ++bit) {
    std::string flipped = whole;
    flipped[whole.size() - tensors + bit / 8] ^= static_cast<char>(1 << bit % 8);
    const auto model = Read(flipped);
    ASSERT_EQ(model.status().code(), absl::StatusCode::kDataLoss) << model.status();
    ASSERT_TRUE(absl::StrContains(model.status().message(), "digest"));
  }
}

TEST_F(ModelFile, AnyFlippedHeaderByteNeverCrashes) {
  ASSERT_TRUE(WriteModelFile(*test::R4(), Path()).ok());
  const std::string whole = Contents(Path());
  for (size_t i = 0; i < whole.size() - 24; ++i) {
    for (const int change : {1, 4, 32, 128, 255}) {
      std::string changed = whole;
      changed[i] ^= static_cast<char>(change);
      const auto model = Read(changed);
      if (!model.ok()) ExpectProperMessage(model.status());
    }
  }
}

TEST(ModelBytes, TheSmallModelLoads) {
  const auto model = Read(FileBytes(SmallHeader(MetadataFor(SmallTensors())), SmallTensors()));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->features(), 2U);
  EXPECT_EQ((*model)->outputs(), 1U);
  EXPECT_EQ((*model)->bias(), std::vector<double>{0.25});
  EXPECT_EQ((*model)->tie(), Tie::kNegative);
  EXPECT_EQ((*model)->unknown_features(), UnknownFeatures::kRefuse);
}

TEST(ModelBytes, BiasMayBeFloat32AndOrderAny) {
  // The tensors in another order than the header's, with spaces behind.
  const std::string tensors = BytesOf<float>({1, 2}) + BytesOf<uint16_t>({0x3F80, 0xC000, 0x0001, 0x4000});
  const std::string header = absl::StrCat("{", TensorMember("weight", "BF16", "[2,2]", "[8,16]"), ",",
                                          MetadataFor(tensors, "softmax", R"(,"labels":"[\"a\",\"b\"]")"), ",",
                                          TensorMember("bias", "F32", "[2]", "[0,8]"), "}     ");
  const auto model = Read(FileBytes(header, tensors));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->bias(), (std::vector<double>{1, 2}));
  EXPECT_EQ((*model)->weight_type(), WeightType::kBfloat16);
  EXPECT_EQ(test::WeightOf(**model, 0, 1), -2.0);
  EXPECT_EQ((*model)->labels(), (std::vector<std::string>{"a", "b"}));
}

TEST(ModelBytes, AHeaderOfExactly100000BytesLoads) {
  const std::string metadata = MetadataFor(SmallTensors(), "identity", R"(,"source":")");
  std::string header = SmallHeader(metadata);
  // Grow the source's text until the header has the size.
  const size_t at = header.find(R"("source":")") + 10;
  header = header.substr(0, at) + "\"" + header.substr(at);
  header.insert(at, std::string(100'000 - header.size(), 'x'));
  ASSERT_EQ(header.size(), 100'000U);
  const auto model = Read(FileBytes(header, SmallTensors()));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GT((*model)->source().size(), 90'000U);
}

TEST(HostileModelBytes, HeaderLengthsThatLie) {
  const std::string header = SmallHeader(MetadataFor(SmallTensors()));
  const auto with_length = [&](uint64_t length) { return FileBytes(length, header, SmallTensors()); };
  ExpectRefused("", "0 bytes");
  ExpectRefused("1234567", "7 bytes");
  ExpectRefused(with_length(0), "header");
  ExpectRefused(with_length(uint64_t{1} << 63), "9223372036854775808");
  ExpectRefused(with_length(18446744073709551613U), "18446744073709551613");
  ExpectRefused(with_length(kMaxModelHeaderBytes + 1), "limit of 100000000");
  ExpectRefused(with_length(header.size() + SmallTensors().size() + 1), "more than the");
  ExpectRefused(with_length(kMaxModelHeaderBytes), "more than the");
  ExpectRefused(with_length(header.size() - 1), "JSON");
  ExpectRefused(with_length(header.size() + 1), "zero byte");
}

TEST(HostileModelBytes, HeadersThatAreNotWhatTheySay) {
  ExpectRefused(FileBytes("no json at all", ""), "header");
  ExpectRefused(FileBytes("[]", ""), "'{'");
  ExpectRefused(FileBytes("{", ""), "JSON");
  ExpectRefused(FileBytes("{\"\xff\xfe\":{}}", ""), "JSON");
  ExpectRefused(FileBytes("{\"a\":{\"dtype\":\"\xc3\"}}", ""), "JSON");
  ExpectRefused(FileBytes(std::string("{\"a\0\":{}}", 9), ""), "JSON");
  ExpectRefused(FileBytes("{}{}", ""), "JSON");
  ExpectRefused(FileBytes("{\"a\":" + std::string(10'000, '[') + std::string(10'000, ']') + "}", ""), "list");
  ExpectRefused(FileBytes(std::string(10'000, '{'), ""), "JSON");
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "{\"a\":";
  ExpectRefused(FileBytes(deep + "1" + std::string(10'000, '}'), ""), "header");
  ExpectRefused(FileBytes(R"({"a":{"dtype":{"b":1}}})", ""), "deep");
  ExpectRefused(FileBytes(std::string("{}\0garbage", 10), ""), "zero byte");
  ExpectRefused(FileBytes(std::string(5'000, '['), ""), "'{'");
}

TEST(HostileModelBytes, NamesThatComeTwice) {
  ExpectRefused(WithMembers(absl::StrCat(kWeight, ",", kWeight, ",", kBias)), "'weight' comes twice");
  ExpectRefused(WithMembers(absl::StrCat(kWeight, ",", kBias, ",", MetadataFor(""))), "'__metadata__' comes twice");
  ExpectRefused(
      WithMembers(absl::StrCat(R"("weight":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]},)", kBias)),
      "'dtype' comes twice");
  ExpectRefused(FileBytes(SmallHeader(MetadataFor(SmallTensors(), "identity", R"(,"link":"exp")")), SmallTensors()),
                "'link' comes twice");
}

TEST(HostileModelBytes, RangesThatDoNotFit) {
  const auto weight = [](const std::string& shape, const std::string& offsets) {
    return WithMembers(absl::StrCat(TensorMember("weight", "F32", shape, offsets), ",", kBias));
  };
  ExpectRefused(weight("[2]", "[0]"), "data_offsets");
  ExpectRefused(weight("[2]", "[]"), "data_offsets");
  ExpectRefused(weight("[2]", "[0,8,8]"), "data_offsets");
  ExpectRefused(weight("[2]", "[8,4]"), "[8, 4]");
  ExpectRefused(weight("[2]", "[-1,8]"), "-1");
  ExpectRefused(weight("[2]", "[0,4000000]"), "4000000");
  ExpectRefused(weight("[2]", "[0,18446744073709551615]"), "18446744073709551615");
  ExpectRefused(weight("[2]", "[0,18446744073709551616]"), "whole number");
  ExpectRefused(weight("[2]", "[0.0,8.0]"), "whole number");
  ExpectRefused(weight("[2]", "[0,1e999]"), "header");
  ExpectRefused(weight("[2]", "[0,null]"), "null");
  ExpectRefused(weight("[2]", "[0,\"8\"]"), "text");
  ExpectRefused(weight("[2]", "[0,[8]]"), "list");
  ExpectRefused(weight("[2]", "[0,{}]"), "deep");
  ExpectRefused(weight("[2]", "8"), "out of place");
  ExpectRefused(weight("[2]", "[0,12]"), "takes 8 bytes");
  ExpectRefused(weight("[1]", "[4,8]"), "gaps");
  ExpectRefused(weight("[1]", "[0,4]"), "gaps");
  ExpectRefused(weight("[3]", "[0,12]"), "gaps");  // overlaps the bias
  ExpectRefused(weight("[4]", "[0,16]"), "gaps");
}

TEST(HostileModelBytes, ShapesThatLie) {
  const auto weight = [](const std::string& shape) {
    return WithMembers(absl::StrCat(TensorMember("weight", "F32", shape, "[0,8]"), ",", kBias));
  };
  ExpectRefused(weight("[1000,1000]"), "4000000 bytes");
  ExpectRefused(weight("[4294967296,4294967296]"), "overflows");
  ExpectRefused(weight("[4611686018427387904]"), "overflows");
  ExpectRefused(weight("[18446744073709551615]"), "overflows");
  ExpectRefused(weight("[0,18446744073709551615]"), "bytes");
  ExpectRefused(weight("[-2]"), "-2");
  ExpectRefused(weight("[2.5]"), "2.5");
  ExpectRefused(weight("[1,1,2]"), "3 dimensions");
  ExpectRefused(weight("[1,1,1,1,1,1,1,1,2]"), "more than 8");
  ExpectRefused(weight("2"), "out of place");
  // Rank 0 is one element.
  ExpectRefused(WithMembers(absl::StrCat(TensorMember("weight", "F64", "[]", "[0,8]"), ",", kBias)), "0 dimensions");
  // Nothing is there, and much is claimed.
  const std::string none;
  ExpectRefused(
      FileBytes(absl::StrCat("{", MetadataFor(none), ",", TensorMember("weight", "F32", "[0,16777215]", "[0,0]"), ",",
                             TensorMember("bias", "F32", "[0]", "[0,0]"), "}"),
                none),
      "bias");
  ExpectRefused(FileBytes(absl::StrCat("{", MetadataFor(none), ",",
                                       TensorMember("weight", "F32", "[18446744073709551615,0]", "[0,0]"), ",",
                                       TensorMember("bias", "F32", "[0]", "[0,0]"), "}"),
                          none),
                "weight");
}

TEST(HostileModelBytes, TrailingBytes) {
  const std::string tensors = SmallTensors() + "x";
  ExpectRefused(FileBytes(SmallHeader(MetadataFor(tensors)), tensors), "trailing");
  ExpectRefused(FileBytes("{}", "x"), "trailing");
  ExpectRefused(FileBytes("{\"__metadata__\":{}}", ""), "format");
}

TEST(HostileModelBytes, TypesOtherThanOurs) {
  const auto typed = [](const std::string& dtype, const std::string& shape) {
    return WithMembers(absl::StrCat(TensorMember("weight", dtype, shape, "[0,8]"), ",", kBias));
  };
  ExpectRefused(typed("F99", "[2]"), "'F99'");
  ExpectRefused(typed("", "[2]"), "dtype");
  ExpectRefused(typed("f32", "[2]"), "'f32'");
  ExpectRefused(typed(std::string(150, 'Z'), "[2]"), "dtype");
  ExpectRefused(
      typed("\u00e4\u00f6\u00fc\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac", "[2]"),
      "dtype");
  ExpectRefused(typed("F64", "[1]"), "F64");
  ExpectRefused(typed("I64", "[1]"), "I64");
  ExpectRefused(typed("I8", "[8]"), "scale");  // int8 without a scale
}

TEST(HostileModelBytes, TensorsThatAreMissingOrForeign) {
  ExpectRefused(
      FileBytes(absl::StrCat("{", MetadataFor(BytesOf<float>({1, 2})), ",", kWeight, "}"), BytesOf<float>({1, 2})),
      "'bias'");
  ExpectRefused(FileBytes(absl::StrCat("{", MetadataFor(BytesOf<double>({1})), ",",
                                       TensorMember("bias", "F64", "[1]", "[0,8]"), "}"),
                          BytesOf<double>({1})),
                "'weight'");
  const std::string tensors = SmallTensors() + BytesOf<float>({1});
  ExpectRefused(FileBytes(absl::StrCat("{", MetadataFor(tensors), ",", kWeight, ",", kBias, ",",
                                       TensorMember("extra", "F32", "[1]", "[16,20]"), "}"),
                          tensors),
                "'extra'");
  ExpectRefused(FileBytes(absl::StrCat("{", MetadataFor(tensors), ",", kWeight, ",", kBias, ",",
                                       TensorMember("scale", "F32", "[1]", "[16,20]"), "}"),
                          tensors),
                "scale");
  ExpectRefused(WithMembers(absl::StrCat(kWeight, R"(,"bias":{"dtype":"F64","shape":[1]})")), "lacks");
  ExpectRefused(WithMembers(absl::StrCat(kWeight, R"(,"bias":{})")), "lacks");
  ExpectRefused(WithMembers(absl::StrCat(kWeight, R"(,"bias":[])")), "out of place");
  ExpectRefused(WithMembers(absl::StrCat(kWeight, ",", kBias, R"(,"more":1)")), "out of place");
  ExpectRefused(
      WithMembers(absl::StrCat(kWeight, R"(,"bias":{"dtype":"F64","shape":[1],"data_offsets":[8,16],"note":"x"})")),
      "'note'");
}

TEST(HostileModelBytes, BiasAndScaleOfAnotherShape) {
  ExpectRefused(WithMembers(absl::StrCat(kWeight, ",", TensorMember("bias", "F32", "[2]", "[8,16]"))), "bias");
  ExpectRefused(WithMembers(absl::StrCat(kWeight, ",", TensorMember("bias", "F64", "[1,1]", "[8,16]"))), "bias");
  ExpectRefused(WithMembers(absl::StrCat(kWeight, ",", TensorMember("bias", "F64", "[]", "[8,16]"))), "bias");
  ExpectRefused(WithMembers(absl::StrCat(kWeight, ",", TensorMember("bias", "I64", "[1]", "[8,16]"))), "bias");
}

TEST(HostileModelBytes, NumbersThatAreNotFinite) {
  const auto refuse = [](const std::string& tensors, const std::string& words) {
    ExpectRefused(FileBytes(SmallHeader(MetadataFor(tensors)), tensors), words);
  };
  refuse(BytesOf<float>({1, HUGE_VALF}) + BytesOf<double>({0}), "feature 1, output 0");
  refuse(BytesOf<float>({1, 2}) + BytesOf<double>({std::nan("")}), "bias[0]");
}

TEST(HostileModelBytes, MetadataThatIsNotOurs) {
  const auto refuse = [](const std::string& from, const std::string& to, const std::string& words) {
    std::string metadata = MetadataFor(SmallTensors());
    const size_t at = metadata.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    metadata.replace(at, from.size(), to);
    ExpectRefused(FileBytes(SmallHeader(metadata), SmallTensors()), words);
  };
  refuse("widelane.linear", "pt", "'format'");
  refuse("\"format_version\":\"1\"", "\"format_version\":\"2\"", "'format_version'");
  refuse("\"format_version\":\"1\"", "\"format_version\":1", "out of place");
  refuse("\"identity\"", "\"relu\"", "'link'");
  refuse("\"identity\"", "\"softmax\"", "softmax");
  refuse("\"identity\"", "null", "null");
  refuse("\"identity\"", "[\"identity\"]", "list");
  refuse("\"identity\"", "{\"a\":\"b\"}", "deep");
  refuse("\"identity\"", "true", "boolean");
  refuse("\"identity\"", "\"identity\",\"tie\":\"maybe\"", "'tie'");
  refuse("\"identity\"", "\"identity\",\"unknown_features\":\"no\"", "'unknown_features'");
  refuse("\"identity\"", "\"identity\",\"labels\":\"[1,2]\"", "'labels'");
  refuse("\"identity\"", "\"identity\",\"labels\":\"{\"", "'labels'");
  refuse("\"identity\"", "\"identity\",\"labels\":\"[\\\"a\\\",\\\"b\\\",\\\"c\\\"]\"", "labels: there are 3");
  refuse("\"identity\"", "\"\\u0000\\u00e4\\u20ac\"", "'link'");
  refuse("sha256:", "md5:", "'digest'");
  refuse("\"digest\":\"sha256:", "\"digest\":\"sha256:0", "'digest'");
  // A digest of other bytes.
  const auto wrong = Read(FileBytes(SmallHeader(MetadataFor("other")), SmallTensors()));
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kDataLoss) << wrong.status();
  EXPECT_TRUE(absl::StrContains(wrong.status().message(), "digest")) << wrong.status();
}

TEST(HostileModelBytes, LabelsNestedDeepAreRefused) {
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  const std::string header = SmallHeader(MetadataFor(SmallTensors(), "identity", ",\"labels\":\"" + deep + "\""));
  ExpectRefused(FileBytes(header, SmallTensors()), "'labels'");
}

// Peak resident memory in KiB, counted from the last reset.
int64_t PeakKilobytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (absl::StartsWith(line, "VmHWM:")) return std::atoll(line.c_str() + 6);
  }
  return 0;
}

TEST(HostileModelBytes, NothingIsAllocatedByAClaimedSize) {
  if (WIDELANE_SANITIZED) GTEST_SKIP() << "sanitizers have memory habits of their own";
  const auto hostile = [](const std::string& shape, const std::string& offsets) {
    return WithMembers(absl::StrCat(TensorMember("weight", "F32", shape, offsets), ",", kBias));
  };
  const std::vector<std::string> files = {
      FileBytes(kMaxModelHeaderBytes, "{", ""),    FileBytes(~uint64_t{0}, "{", ""),
      hostile("[100000000]", "[0,400000000]"),     hostile("[100000000]", "[0,8]"),
      hostile("[4294967296,4294967296]", "[0,8]"), hostile("[0,16777215]", "[0,0]")};
  for (const std::string& file : files) EXPECT_FALSE(Read(file).ok());  // what is loaded lazily is there now
  std::ofstream("/proc/self/clear_refs") << "5";
  const int64_t before = PeakKilobytes();
  for (const std::string& file : files) EXPECT_FALSE(Read(file).ok());
  EXPECT_LT(PeakKilobytes() - before, 1024);
}

}  // namespace
}  // namespace widelane
