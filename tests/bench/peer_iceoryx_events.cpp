// peer_iceoryx_events.cpp - iceoryx, as a contender: peer_iceoryx_events publish | round_trip BYTES.
//
// Payloads are written and read in place (loan, publish, take, release). Publisher and subscriber wait
// for one another when a queue is full: nothing is lost, as with a reliable reader of ours. Needs a
// running RouDi. Speaks the lines that bench/harness.h describes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <signal.h>

#include "iceoryx_hoofs/log/logmanager.hpp"
#include "iceoryx_posh/popo/untyped_publisher.hpp"
#include "iceoryx_posh/popo/untyped_subscriber.hpp"
#include "iceoryx_posh/runtime/posh_runtime.hpp"

#include "contender_shape.h"

namespace
{

std::uint32_t bytes;
std::string instance; // the topic of this run, so that two runs never meet

std::int64_t now_ns()
{
    timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

long switches()
{
    rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

void relax()
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

[[noreturn]] void fail(const char *what)
{
    std::fprintf(stderr, "iceoryx: %s\n", what);
    _exit(EXIT_FAILURE);
}

// The processors are those that the process found, first and second.
void pin(int which)
{
    cpu_set_t allowed, one;

    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && which-- == 0)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 0)
        fail("two processors are needed");
    sched_setaffinity(0, sizeof one, &one);
}

void send_number(int fd, std::uint64_t value)
{
    if (write(fd, &value, sizeof value) != static_cast<ssize_t>(sizeof value))
        fail("the other process ended");
}

bool wait_number(int fd, std::uint64_t &value)
{
    return read(fd, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}

class end
{
  public:
    end(const char *role, const char *out, const char *in)
    {
        using namespace iox;
        popo::PublisherOptions publishing;
        popo::SubscriberOptions subscribing;

        log::LogManager::GetLogManager().SetDefaultLogLevel(log::LogLevel::kWarn,
                                                            log::LogLevelOutput::kHideLogLevel);
        runtime::PoshRuntime::initRuntime(
            RuntimeName_t(cxx::TruncateToCapacity, (role + instance).c_str()));
        publishing.subscriberTooSlowPolicy = popo::ConsumerTooSlowPolicy::WAIT_FOR_CONSUMER;
        publishing.historyCapacity = 0;
        subscribing.queueFullPolicy = popo::QueueFullPolicy::BLOCK_PRODUCER;
        subscribing.queueCapacity = 256;
        subscribing.historyRequest = 0;
        if (out != nullptr)
            publisher = std::make_unique<popo::UntypedPublisher>(service(out), publishing);
        if (in != nullptr)
            subscriber = std::make_unique<popo::UntypedSubscriber>(service(in), subscribing);
    }

    void await_peer() const
    {
        while (publisher && !publisher->hasSubscribers())
            usleep(1000);
        while (subscriber && subscriber->getSubscriptionState() != iox::SubscribeState::SUBSCRIBED)
            usleep(1000);
    }

    void publish(std::uint64_t value)
    {
        for (;;) {
            auto loan = publisher->loan(bytes, 64);

            if (loan.has_error()) {
                relax();
                continue;
            }
            auto words = static_cast<std::uint64_t *>(loan.value());
            for (std::uint32_t i = 0; i < bytes / 8; i++)
                words[i] = value;
            publisher->publish(words);
            return;
        }
    }

    std::uint64_t receive()
    {
        for (;;) {
            auto taken = subscriber->take();

            if (taken.has_error()) {
                relax();
                continue;
            }
            auto words = static_cast<const std::uint64_t *>(taken.value());
            std::uint64_t value = words[0], difference = 0;
            for (std::uint32_t i = 0; i < bytes / 8; i++)
                difference |= words[i] ^ value;
            subscriber->release(words);
            if (difference != 0)
                fail("a payload is not whole");
            return value;
        }
    }

  private:
    static iox::capro::ServiceDescription service(const char *event)
    {
        return { "bench", iox::capro::IdString_t(iox::cxx::TruncateToCapacity, instance.c_str()),
                 iox::capro::IdString_t(iox::cxx::TruncateToCapacity, event) };
    }

    std::unique_ptr<iox::popo::UntypedPublisher> publisher;
    std::unique_ptr<iox::popo::UntypedSubscriber> subscriber;
};

// The second process: answers round trips, or reads bursts that were published before.
void partner(int from, int to, bool trips)
{
    std::uint64_t count;

    pin(1);
    end self("b", trips ? "back" : nullptr, "there");
    self.await_peer();
    send_number(to, 0);
    while (wait_number(from, count)) {
        long before = switches();

        for (std::uint64_t i = 0; i < count; i++) {
            std::uint64_t value = self.receive();

            if (trips)
                self.publish(value);
        }
        send_number(to, static_cast<std::uint64_t>(switches() - before));
    }
}

void publish_run(end &self, int to, int from)
{
    static std::uint64_t value;
    std::vector<double> ns(SHAPE_BURSTS);
    long lost = 0;

    for (double &burst : ns) {
        long before = switches();
        std::int64_t begin = now_ns();
        std::uint64_t answer;

        for (int i = 0; i < SHAPE_BURST; i++)
            self.publish(value++);
        burst = static_cast<double>(now_ns() - begin) / SHAPE_BURST;
        lost += switches() - before;
        send_number(to, SHAPE_BURST);
        if (!wait_number(from, answer))
            fail("the other process ended");
    }
    std::sort(ns.begin(), ns.end());
    std::printf("%.17g %ld\n", (ns[SHAPE_BURSTS / 2 - 1] + ns[SHAPE_BURSTS / 2]) / 2, lost);
    std::fflush(stdout);
}

void round_trip_run(end &self, int to, int from)
{
    static std::uint64_t value;
    std::vector<double> ns;
    long before = switches();
    std::uint64_t answer;

    send_number(to, (SHAPE_BLOCKS + 1) * SHAPE_BLOCK);
    for (int i = 0; i <= SHAPE_BLOCKS; i++) {
        std::int64_t begin = now_ns();

        for (int j = 0; j < SHAPE_BLOCK; j++) {
            self.publish(++value);
            if (self.receive() != value)
                fail("the echo differs");
        }
        if (i > 0)
            ns.push_back(static_cast<double>(now_ns() - begin) / SHAPE_BLOCK);
    }
    before = switches() - before;
    if (!wait_number(from, answer))
        fail("the other process ended");
    std::sort(ns.begin(), ns.end());
    std::printf("%.17g %ld\n", (ns[SHAPE_BLOCKS / 2 - 1] + ns[SHAPE_BLOCKS / 2]) / 2,
                before + static_cast<long>(answer));
    std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv)
{
    int down[2], up[2];
    std::uint64_t answer;
    char line[16];

    if (argc != 3) {
        std::fprintf(stderr, "usage: %s publish | round_trip BYTES\n", argv[0]);
        return 2;
    }
    bool trips = std::strcmp(argv[1], "round_trip") == 0;
    bytes = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
    instance = std::to_string(getpid());
    if (pipe(down) != 0 || pipe(up) != 0)
        fail("pipe");
    pid_t pid = fork(); // before the library has threads
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(down[1]);
        close(up[0]);
        partner(down[0], up[1], trips);
        return 0;
    }
    close(down[0]);
    close(up[1]);
    {
        pin(0);
        end self("a", "there", trips ? "back" : nullptr);
        self.await_peer();
        if (!wait_number(up[0], answer))
            fail("the other process ended");
        std::printf("ready\n");
        std::fflush(stdout);
        while (std::fgets(line, sizeof line, stdin) != nullptr) {
            if (trips)
                round_trip_run(self, down[1], up[0]);
            else
                publish_run(self, down[1], up[0]);
        }
        close(down[1]);
        waitpid(pid, nullptr, 0);
    }
    return 0;
}
