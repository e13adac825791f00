#include "runtime/local/node/addresses.hpp"

#include <gtest/gtest.h>

#include <unistd.h>
#include <filesystem>
#include <memory>

namespace capstan::local {
namespace {

class AddressBookTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "capstan-addresses-XXXXXX";
        root_ = ::mkdtemp(pattern.data());
        // of this process, so that a second run beside it is none of the other books
        prefix_ = "127." + std::to_string(100 + ::getpid() % 150);
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    std::unique_ptr<AddressBook> book(const std::string& name) const {
        return std::make_unique<AddressBook>(root_ + "/" + name, prefix_);
    }

    std::string root_, prefix_;
};

const ObjectKey kPod{"n", "main-0"};

TEST_F(AddressBookTest, KeepsThePodsAddressForGood) {
    const auto address = book("one")->address_of(kPod);
    ASSERT_TRUE(address.has_value()) << address.error().message;
    const auto again = book("one");
    EXPECT_EQ(again->known(kPod), address.value());
    EXPECT_EQ(again->address_of(kPod).value(), address.value());
    EXPECT_NE(again->address_of({"n", "main-1"}).value(), address.value());
}

TEST_F(AddressBookTest, GivesNothingAwayThatAnotherOpenBookHas) {
    auto one = book("one");
    const auto other = book("other");
    const std::string first = one->address_of(kPod).value();
    EXPECT_NE(other->address_of(kPod).value(), first);  // although nobody listens there yet
    one.reset();
    one = book("one");  // what is read from the file is held too
    EXPECT_NE(other->address_of({"n", "main-1"}).value(), first);
    one->release(kPod);
    EXPECT_EQ(book("third")->address_of(kPod).value(), first);
}

}  // namespace
}  // namespace capstan::local
