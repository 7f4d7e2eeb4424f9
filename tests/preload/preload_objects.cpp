/* preload_objects - a C++ program: objects, containers, exceptions; then it waits for a line. */
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct npc {
    std::string name;
    std::vector<int> path;
    alignas(64) float position[16];
};

int main()
{
    std::vector<std::unique_ptr<npc>> crowd;
    std::map<int, std::string> names;
    int caught = 0;

    for (int i = 0; i < 2000; i++) {
        crowd.push_back(std::make_unique<npc>());
        crowd.back()->name =
            "a name that is too long to be kept inside of the string " + std::to_string(i);
        crowd.back()->path.assign(100, i);
        names[i] = crowd.back()->name;
    }
    for (int i = 0; i < 100; i++) {
        try {
            throw std::runtime_error(names.at(i));
        } catch (const std::runtime_error &error) {
            caught += error.what() == names[i];
        }
    }
    std::thread([&crowd] { crowd.resize(1000); }).join();
    std::printf("ready %zu\n", crowd.size());
    std::fflush(stdout);
    char line[16];
    return caught == 100 && std::fgets(line, sizeof line, stdin) != nullptr ? 0 : 1;
}
