// A synchronous cluster over the fake NCCL.

#include "tests/transport/company.hpp"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("gradients are added up by NCCL and weights broadcast") {
  for (size_t count : {1, 2, 3, 4}) {
    INFO(count << " workers");
    {
      company all{count};
      auto workers = gather(all, count);
      auto sums = fake::sums() + fake::transfers();
      auto broadcasts = fake::broadcasts();
      CHECK(train(all, workers, 2, 20) == 0);
      // The first of these may be on its way when the cluster is open.
      CHECK(fake::sums() + fake::transfers() - sums >= 19);
      CHECK(fake::broadcasts() - broadcasts >= 19);
    }
    check_clean();
  }
}

TEST_CASE("each worker's part of a mean is that of its samples") {
  {
    company all;
    auto workers = gather(all, 3);
    auto before = fake::sums();
    CHECK(train(all, workers, 2, 10,
                [](size_t worker) { return 10 + 20 * worker; }) == 0);
    CHECK(fake::sums() > before);
  }
  check_clean();
}

TEST_CASE("who waits for the server is not waited for") {
  {
    company all;
    auto workers = gather(all, 3);
    auto parked =
      std::async(std::launch::async, [&] { return all.pull(workers[2], 2); });
    CHECK(train(all, {workers[0], workers[1]}, 2, 1) == 0);
    CHECK(parked.get());
    CHECK(train(all, workers, 3, 3) == 0);
    CHECK_FALSE(all.said("waited in vain"));
  }
  check_clean();
}

TEST_CASE("who is silent is left out, and does not stop the others") {
  {
    company all{1, .3};
    auto workers = gather(all, 3);
    all.dismiss(workers.back());
    workers.pop_back();
    CHECK(train(all, workers, 2, 1) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    REQUIRE(all.meet());
    auto sums = fake::sums();
    CHECK(train(all, workers, 3, 20) == 0);
    CHECK(fake::sums() - sums >= 19);
    CHECK(all.said("waited in vain"));
  }
  check_clean();
}

TEST_CASE("who is expelled is in no mean, and is told to send its own") {
  {
    company all;
    auto workers = gather(all, 3);
    CHECK(train(all, workers, 2, 3) == 0);
    auto gone = workers.back();
    workers.pop_back();
    all.expel(gone);
    auto own = std::async(std::launch::async, [&] {
      return all.push(gone, 5); // Answered when the others' step is made.
    });
    CHECK(train(all, workers, 5, 10) == 0);
    CHECK(own.get());
    REQUIRE(all.meet());
    auto sums = fake::sums();
    CHECK(train(all, workers, 15, 10) == 0);
    CHECK(fake::sums() - sums >= 9);
  }
  check_clean();
}

TEST_CASE("members come and go, and each step is right") {
  {
    company all;
    auto workers = gather(all, 2);
    CHECK(train(all, workers, 2, 5) == 0);
    workers.push_back(all.join());
    CHECK(train(all, workers, 7, 5) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    REQUIRE(all.meet());
    auto sums = fake::sums();
    CHECK(train(all, workers, 12, 5) == 0);
    CHECK(fake::sums() > sums);
    all.kill(workers[0]);
    workers.erase(workers.begin());
    CHECK(train(all, workers, 17, 20) == 0);
    REQUIRE(all.meet());
    CHECK(train(all, workers, 37, 5) == 0);
  }
  check_clean();
}

TEST_CASE("whatever fails, each step is right, over the stream if need be") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    {
      company all{seed};
      std::mt19937_64 random{seed};
      auto workers = gather(all, 3);
      auto trained = std::async(std::launch::async,
                                [&] { return train(all, workers, 2, 30); });
      for (int i = 0; i < 4; ++i) {
        std::this_thread::sleep_for(
          std::chrono::microseconds(random() % 20000));
        auto rank = static_cast<int>(random() % 4);
        auto what = random() % 4;
        fake::spoil([&](fake::faults& wrong) {
          (what == 0   ? wrong.never_done
           : what == 1 ? wrong.comm_fails
           : what == 2 ? wrong.call_fails
                       : wrong.never_meets)
            .insert(rank);
        });
        std::this_thread::sleep_for(
          std::chrono::microseconds(random() % 20000));
        fake::spoil([](fake::faults& wrong) { wrong = {}; });
      }
      CHECK(trained.get() == 0);
    }
    check_clean();
  }
}

TEST_CASE("a broadcast that fails at one worker is made up for") {
  {
    company all;
    auto workers = gather(all, 2);
    auto trained = std::async(std::launch::async,
                              [&] { return train(all, workers, 2, 200); });
    // Broadcasts hang, sums do not.
    fake::spoil([](fake::faults& wrong) { wrong.no_broadcast = {2}; });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    fake::spoil([](fake::faults& wrong) { wrong = {}; });
    CHECK(trained.get() == 0);
  }
  check_clean();
}

TEST_CASE("without NCCL all takes the stream, and is right") {
  {
    company all;
    fake::spoil([](fake::faults& wrong) { wrong.refused = {0, 1, 2}; });
    std::vector<size_t> workers{all.join(), all.join()};
    CHECK(train(all, workers, 1, 10) == 0);
    CHECK(fake::sums() == 0);
    CHECK(fake::broadcasts() == 0);
  }
  check_clean();
}
