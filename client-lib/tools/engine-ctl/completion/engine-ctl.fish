# fish completion of engine-ctl; made by `engine-ctl completion fish`.

# The words before the cursor that are no options and no values of them.
function __engine_ctl_words
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word --socket --timeout --interval --ticks --client --pid --type --where --max-rate --state --level --bytes --set --remove --channels --levels --reason --hold --trace --limit --time --late --clock --every --event --payload --module --lines --last --step --seconds --history --speed --tag --sample
            set skip 1
        else if not string match -q -- '-*' $word
            echo $word
        end
    end
end

# Are these the words, and so many arguments behind them?
function __engine_ctl_at
    set -l words (__engine_ctl_words)
    set -l verb (string split -n ' ' -- $argv[1])
    set -l n (count $verb)
    test (count $words) -eq (math $n + $argv[2]); or return 1
    test $n -eq 0; and return 0
    test "$words[1..$n]" = "$argv[1]"
end

function __engine_ctl_verb
    string match -q -- "$argv[1]*" (string join ' ' -- (__engine_ctl_words))
end

complete -c engine-ctl -f
complete -c engine-ctl -l socket -r -F -d 'Control socket; default: $ENGINE_CORE_SOCKET, then the user\'s, then the system\'s.'
complete -c engine-ctl -l json -d 'Print results as JSON, one a line.'
complete -c engine-ctl -l timeout -x -d 'Wait this long for an answer; default 30.'
complete -c engine-ctl -l dry-run -d 'Change nothing: say what would happen, or the error that would come.'
complete -c engine-ctl -l help -d 'Print this, or the help of a verb.'
complete -c engine-ctl -l version -d 'Print the version.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a status -d 'Show daemon, clocks, events, memory, resources and breaker on one page.'
complete -c engine-ctl -l watch -n '__engine_ctl_verb "status"' -d 'Show it again and again, each second by default.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a top -d 'Watch clocks, clients, events and memory on one screen; JSON, one line a tick, in a pipe.'
complete -c engine-ctl -l interval -n '__engine_ctl_verb "top"' -x -d 'Time between two, such as 500ms; 1s by default.'
complete -c engine-ctl -l ticks -n '__engine_ctl_verb "top"' -x -d 'End after so many.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a doctor -d 'Say what is not well, by what evidence, and what helps; exit status 1 for a problem.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a wait -d 'Come back when this holds, or, for the word ready, when the daemon answers; 4 after --timeout.'
complete -c engine-ctl -n '__engine_ctl_at "wait" 0' -a 'ready memory.total_bytes memory.available_bytes memory.daemon_bytes memory.assets_bytes memory.clients_bytes memory.clients_peak_bytes memory.clients clock.game_ns clock.paused clock.steps clock.missed clock.jitter_p99_ns clock.discontinuities clock.timers event.types event.ports event.readers event.published event.bytes event.delivered event.lost event.refused event.latency_p99_ns breaker.level breaker.available_permille breaker.growth_bytes_s breaker.reservations breaker.looks resource.groups resource.ready resource.bytes resource.loaded resource.failed resource.evicted control.clients control.requests control.errors control.connections control.refused control.dropped control.log_lost control.descriptors'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a clients -d 'List the connected clients.'
complete -c engine-ctl -l closed -n '__engine_ctl_verb "clients"' -d 'The last ones that are gone, and why.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a mem-report -d 'Show who has the memory, by tag and allocator; also of processes that died.'
complete -c engine-ctl -l client -n '__engine_ctl_verb "mem-report"' -x -d 'Only the client with this id.'
complete -c engine-ctl -l pid -n '__engine_ctl_verb "mem-report"' -x -d 'Only this process.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a events -d 'List the event types with their counts and latencies, or the fields of one.'
complete -c engine-ctl -n '__engine_ctl_at events 0' -a list -d 'List the event types with their counts and latencies, or the fields of one.'
complete -c engine-ctl -n '__engine_ctl_at events 0' -a tail -d 'Print events as they come, one a line; JSON in a pipe.'
complete -c engine-ctl -l type -n '__engine_ctl_verb "events tail"' -x -d 'Only events of this type; give it for each type.'
complete -c engine-ctl -l where -n '__engine_ctl_verb "events tail"' -x -d 'Only if FIELD=VALUE holds, or != > >= < <=; several must all hold.'
complete -c engine-ctl -l max-rate -n '__engine_ctl_verb "events tail"' -x -d 'Of each type at most so many a second.'
complete -c engine-ctl -l latest -n '__engine_ctl_verb "events tail"' -d 'When events come faster, only the newest of a type.'
complete -c engine-ctl -n '__engine_ctl_at events 0' -a stats -d 'Show counts, rates and latencies of the event types; JSON in a pipe.'
complete -c engine-ctl -l type -n '__engine_ctl_verb "events stats"' -x -d 'Only events of this type; give it for each type.'
complete -c engine-ctl -l watch -n '__engine_ctl_verb "events stats"' -d 'Show it again and again, each second by default.'
complete -c engine-ctl -n '__engine_ctl_at events 0' -a publish -d 'Publish one event; the payload is JSON, what it leaves out is zero.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a resources -d 'List groups and their resources: sizes, references by client, class, uses.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a list -d 'List groups and their resources: sizes, references by client, class, uses.'
complete -c engine-ctl -l state -n '__engine_ctl_verb "resources list"' -x -d 'Only those that are unloaded, loading, ready, evicting, evicted or failed.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a get -d 'Show all about one resource.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a define -d 'Define the groups of a JSON file, or of all JSON files in a directory.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a undefine -d 'Forget a group that is not loaded.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a load -d 'Load a group and wait until it is ready.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a unload -d 'Unload a group as soon as nobody holds it; show who does.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a request -d 'Bring a resource back that was evicted.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a reload -d 'Read a resource again, as when its file was saved.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a pin -d 'Keep a group in memory, whatever happens.'
complete -c engine-ctl -l off -n '__engine_ctl_verb "resources pin"' -d 'No longer: as it is defined.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a watch -d 'Follow what is loaded, evicted and changed.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a dump -d 'Write what is in memory to a file: images as PNG, the rest as it is.'
complete -c engine-ctl -l level -n '__engine_ctl_verb "resources dump"' -x -d 'Mip level of an image, 0 by default.'
complete -c engine-ctl -n '__engine_ctl_at "resources dump" 1' -F
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a evict -d 'Free resources that nobody holds: those of a group, or an amount.'
complete -c engine-ctl -l bytes -n '__engine_ctl_verb "resources evict"' -x -d 'Free at least this much; who was used before last the longest ago goes first.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a mount -d 'Add a directory or archive to the search path.'
complete -c engine-ctl -n '__engine_ctl_at "resources mount" 0' -F
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a alias -d 'Show or change the other names of paths; all or nothing.'
complete -c engine-ctl -l set -n '__engine_ctl_verb "resources alias"' -x -d 'Look PATH up in place of NAME; two prefixes end in /.'
complete -c engine-ctl -l remove -n '__engine_ctl_verb "resources alias"' -x -d 'End an alias; before any is set.'
complete -c engine-ctl -n '__engine_ctl_at resources 0' -a stats -d 'Show how full the asset heap is, and how resources are decoded.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a cook -d 'Decode an image into a file that loads as fast as it is read; needs no daemon.'
complete -c engine-ctl -l channels -n '__engine_ctl_verb "cook"' -x -d '1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.'
complete -c engine-ctl -l levels -n '__engine_ctl_verb "cook"' -x -d 'At most so many mip levels; 32 for all.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a breaker -d 'Show the breaker\'s level, every source of it, and who answered.'
complete -c engine-ctl -n '__engine_ctl_at breaker 0' -a get -d 'Show the breaker\'s level, every source of it, and who answered.'
complete -c engine-ctl -n '__engine_ctl_at breaker 0' -a trip -d 'Raise the breaker: 1 warning, 2 eviction, 3 emergency.'
complete -c engine-ctl -l reason -n '__engine_ctl_verb "breaker trip"' -x -d 'Why, for the log and the games; "by hand" by default.'
complete -c engine-ctl -l hold -n '__engine_ctl_verb "breaker trip"' -x -d 'When it ends by itself, 60 by default; 0: at a reset only.'
complete -c engine-ctl -n '__engine_ctl_at "breaker trip" 0' -a '0 1 2 3'
complete -c engine-ctl -n '__engine_ctl_at breaker 0' -a reset -d 'End a level that was raised by hand.'
complete -c engine-ctl -n '__engine_ctl_at breaker 0' -a policy -d 'Show marks, times and actions, or set some of them: all or nothing.'
complete -c engine-ctl -l set -n '__engine_ctl_verb "breaker policy"' -x -d 'Values to set, such as {"warning_permille": 200}.'
complete -c engine-ctl -n '__engine_ctl_at breaker 0' -a rehearse -d 'Show what a policy would do with the memory that there is now, or with a trace of it.'
complete -c engine-ctl -l set -n '__engine_ctl_verb "breaker rehearse"' -x -d 'Values to lay over the policy in force.'
complete -c engine-ctl -l trace -n '__engine_ctl_verb "breaker rehearse"' -r -F -d 'A course of memory, as breaker trace prints it.'
complete -c engine-ctl -l recorded -n '__engine_ctl_verb "breaker rehearse"' -d 'What the daemon has recorded until now.'
complete -c engine-ctl -n '__engine_ctl_at breaker 0' -a trace -d 'Print the course of memory that was recorded, for breaker rehearse --trace.'
complete -c engine-ctl -l limit -n '__engine_ctl_verb "breaker trace"' -x -d 'The newest N readings, 1000 by default.'
complete -c engine-ctl -n '__engine_ctl_at breaker 0' -a history -d 'Show the last transitions, the newest first.'
complete -c engine-ctl -l limit -n '__engine_ctl_verb "breaker history"' -x -d 'Most of them, 32 by default.'
complete -c engine-ctl -l actions -n '__engine_ctl_verb "breaker history"' -d 'What was done for each, and what that gave back.'
complete -c engine-ctl -n '__engine_ctl_at breaker 0' -a samples -d 'Show what clients\' memory did while a level was in force, ten times a second.'
complete -c engine-ctl -l client -n '__engine_ctl_verb "breaker samples"' -x -d 'Of this client alone.'
complete -c engine-ctl -l limit -n '__engine_ctl_verb "breaker samples"' -x -d 'Most of them, 100 by default.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a clock -d 'Show game time and the step clocks: rates, late steps, jitter.'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a get -d 'Show game time and the step clocks: rates, late steps, jitter.'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a pause -d 'Make game time stand.'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a resume -d 'Let game time go on.'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a scale -d 'Make game time faster or slower, 0 to 100: 0.5, 2, 1/3.'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a checkpoint -d 'Remember game time, to roll back to it.'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a rollback -d 'Set game time and its step clocks back, to a checkpoint by its number or name.'
complete -c engine-ctl -l time -n '__engine_ctl_verb "clock rollback"' -x -d 'To this game time instead.'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a step -d 'Make single steps of a clock while game time stands; 1 by default.'
complete -c engine-ctl -n '__engine_ctl_at "clock step" 0' -a 'real game physics network ai'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a create -d 'Make a step clock: 30, 59.94, 60000/1001.'
complete -c engine-ctl -l real -n '__engine_ctl_verb "clock create"' -d 'It follows real time, not game time.'
complete -c engine-ctl -l late -n '__engine_ctl_verb "clock create"' -x -a 'skip slow' -d 'skip, slow, or how many late steps are made up for.'
complete -c engine-ctl -n '__engine_ctl_at "clock create" 0' -a 'real game physics network ai'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a rate -d 'Change the rate of a step clock, from its next step on.'
complete -c engine-ctl -n '__engine_ctl_at "clock rate" 0' -a 'real game physics network ai'
complete -c engine-ctl -n '__engine_ctl_at clock 0' -a group -d 'Show the members of a step clock\'s group, and who is late.'
complete -c engine-ctl -n '__engine_ctl_at "clock group" 0' -a 'real game physics network ai'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a timer -d 'Have timer.fired published after a duration (250ms, 2s), or steps; stays until it has.'
complete -c engine-ctl -n '__engine_ctl_at timer 0' -a arm -d 'Have timer.fired published after a duration (250ms, 2s), or steps; stays until it has.'
complete -c engine-ctl -l clock -n '__engine_ctl_verb "timer arm"' -x -a 'real game physics network ai' -d 'real (default), game, or a step clock, which counts steps.'
complete -c engine-ctl -l every -n '__engine_ctl_verb "timer arm"' -x -d 'And again and again, until interrupted.'
complete -c engine-ctl -l event -n '__engine_ctl_verb "timer arm"' -x -d 'An event to publish besides.'
complete -c engine-ctl -l payload -n '__engine_ctl_verb "timer arm"' -x -d 'Its fields.'
complete -c engine-ctl -n '__engine_ctl_at timer 0' -a cancel -d 'Cancel a timer by its id.'
complete -c engine-ctl -n '__engine_ctl_at timer 0' -a list -d 'List the armed timers.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a config -d 'Show the configuration that is in force.'
complete -c engine-ctl -n '__engine_ctl_at config 0' -a show -d 'Show the configuration that is in force.'
complete -c engine-ctl -l origin -n '__engine_ctl_verb "config show"' -d 'And where each value comes from.'
complete -c engine-ctl -l changed -n '__engine_ctl_verb "config show"' -d 'Only what is not built in.'
complete -c engine-ctl -n '__engine_ctl_at config 0' -a get -d 'Print one value.'
complete -c engine-ctl -n '__engine_ctl_at "config get" 0' -a 'log.level log.levels log.sinks log.file log.file_bytes log.file_count log.journal control.connections control.connections_per_user control.batch control.in_flight control.output_bytes control.line_s control.replay_bytes control.replay_s control.group client.grace_s event.stall_ms event.queue_bytes scheduler.priority scheduler.waitv scheduler.history_s scheduler.budget_ms scheduler.timers resource.workers resource.heap_bytes resource.heap_huge resource.heap_path resource.bytes_max resource.pixels_max resource.seconds_max resource.decode_memory_bytes resource.sandbox resource.drop_cache resource.mounts resource.manifests resource.soft_bytes resource.tick_ms resource.hot_reload resource.membarrier breaker.warning_permille breaker.eviction_permille breaker.emergency_permille breaker.warning_bytes breaker.eviction_bytes breaker.emergency_bytes breaker.hysteresis_permille breaker.hold_ms breaker.psi_some_permille breaker.psi_full_permille breaker.psi_ceiling_permille breaker.tick_ms breaker.fast_tick_ms breaker.fast_permille breaker.order_extra_permille breaker.order_growth_ms breaker.order_deadline_ms breaker.grace_ms breaker.save_deadline_ms breaker.sigterm breaker.particle_rate_permille breaker.lod_bias_permille breaker.budget_eviction_permille breaker.warning_actions breaker.eviction_actions breaker.emergency_actions breaker.on_level breaker.on_level_s breaker.kernel_events breaker.proc breaker.groups telemetry.interval_ms telemetry.history'
complete -c engine-ctl -n '__engine_ctl_at config 0' -a set -d 'Set a key until the daemon ends; null takes that back.'
complete -c engine-ctl -n '__engine_ctl_at "config set" 0' -a 'log.level log.levels log.sinks log.file log.file_bytes log.file_count log.journal control.connections control.connections_per_user control.batch control.in_flight control.output_bytes control.line_s control.replay_bytes control.replay_s control.group client.grace_s event.stall_ms event.queue_bytes scheduler.priority scheduler.waitv scheduler.history_s scheduler.budget_ms scheduler.timers resource.workers resource.heap_bytes resource.heap_huge resource.heap_path resource.bytes_max resource.pixels_max resource.seconds_max resource.decode_memory_bytes resource.sandbox resource.drop_cache resource.mounts resource.manifests resource.soft_bytes resource.tick_ms resource.hot_reload resource.membarrier breaker.warning_permille breaker.eviction_permille breaker.emergency_permille breaker.warning_bytes breaker.eviction_bytes breaker.emergency_bytes breaker.hysteresis_permille breaker.hold_ms breaker.psi_some_permille breaker.psi_full_permille breaker.psi_ceiling_permille breaker.tick_ms breaker.fast_tick_ms breaker.fast_permille breaker.order_extra_permille breaker.order_growth_ms breaker.order_deadline_ms breaker.grace_ms breaker.save_deadline_ms breaker.sigterm breaker.particle_rate_permille breaker.lod_bias_permille breaker.budget_eviction_permille breaker.warning_actions breaker.eviction_actions breaker.emergency_actions breaker.on_level breaker.on_level_s breaker.kernel_events breaker.proc breaker.groups telemetry.interval_ms telemetry.history'
complete -c engine-ctl -n '__engine_ctl_at config 0' -a reload -d 'Read the configuration files again, and say what changed.'
complete -c engine-ctl -n '__engine_ctl_at config 0' -a check -d 'Say what is wrong with a configuration file; needs no daemon.'
complete -c engine-ctl -n '__engine_ctl_at "config check" 0' -F
complete -c engine-ctl -n '__engine_ctl_at config 0' -a schema -d 'Print the JSON schema of the configuration; needs no daemon.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a log -d 'Show from which level on lines are logged, or set it for all or for one module.'
complete -c engine-ctl -n '__engine_ctl_at log 0' -a level -d 'Show from which level on lines are logged, or set it for all or for one module.'
complete -c engine-ctl -n '__engine_ctl_at "log level" 1' -a 'trace debug info warning error'
complete -c engine-ctl -n '__engine_ctl_at log 0' -a tail -d 'Print log lines as they come; JSON in a pipe.'
complete -c engine-ctl -l level -n '__engine_ctl_verb "log tail"' -x -a 'trace debug info warning error' -d 'Only from this level on.'
complete -c engine-ctl -l module -n '__engine_ctl_verb "log tail"' -x -d 'Only of this module.'
complete -c engine-ctl -l lines -n '__engine_ctl_verb "log tail"' -x -d 'Begin with so many of the last; 10 by default.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a telemetry -d 'Show the metrics of the daemon and what they mean.'
complete -c engine-ctl -n '__engine_ctl_at telemetry 0' -a get -d 'Show the metrics of the daemon and what they mean.'
complete -c engine-ctl -n '__engine_ctl_at "telemetry get" 0' -a 'memory clock event breaker resource control'
complete -c engine-ctl -n '__engine_ctl_at telemetry 0' -a tail -d 'Print the metrics again and again, one line each time; JSON in a pipe.'
complete -c engine-ctl -l interval -n '__engine_ctl_verb "telemetry tail"' -x -d 'Time between two, such as 500ms; 1s by default.'
complete -c engine-ctl -n '__engine_ctl_at "telemetry tail" 0' -a 'memory clock event breaker resource control'
complete -c engine-ctl -n '__engine_ctl_at telemetry 0' -a history -d 'Show past samples of the metrics of one topic.'
complete -c engine-ctl -l last -n '__engine_ctl_verb "telemetry history"' -x -d 'Only of this time, such as 1min.'
complete -c engine-ctl -l step -n '__engine_ctl_verb "telemetry history"' -x -d 'One for each such period.'
complete -c engine-ctl -n '__engine_ctl_at "telemetry history" 0' -a 'memory clock event breaker resource control'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a completion -d 'Print what makes bash, zsh or fish complete engine-ctl; it is installed, too.'
complete -c engine-ctl -n '__engine_ctl_at "completion" 0' -a 'bash zsh fish'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a record -d 'Write events to a new MCAP file, until interrupted; or tell what is in one.'
complete -c engine-ctl -l type -n '__engine_ctl_verb "record"' -x -d 'Only events of this type; give it for each type.'
complete -c engine-ctl -l seconds -n '__engine_ctl_verb "record"' -x -d 'Stop after so many seconds.'
complete -c engine-ctl -l history -n '__engine_ctl_verb "record"' -x -d 'Begin with the last N events of each port, 1..4095.'
complete -c engine-ctl -l info -n '__engine_ctl_verb "record"' -d 'Tell what is in FILE; needs no daemon.'
complete -c engine-ctl -n '__engine_ctl_at "record" 0' -F
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a replay -d 'Publish the events of a recording again, under the names of its clients and ports.'
complete -c engine-ctl -l type -n '__engine_ctl_verb "replay"' -x -d 'Only events of this type; give it for each type.'
complete -c engine-ctl -l speed -n '__engine_ctl_verb "replay"' -x -d 'So many times as fast, 0.1..100; default 1.'
complete -c engine-ctl -l step-locked -n '__engine_ctl_verb "replay"' -d 'Events of one step in one step again, in the same order each time.'
complete -c engine-ctl -n '__engine_ctl_at "replay" 0' -F
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a run -d 'Become PROGRAM, unchanged but for this: its allocations are counted, and shown by mem-report.'
complete -c engine-ctl -l tag -n '__engine_ctl_verb "run"' -x -d 'What they are counted for, "malloc" by default.'
complete -c engine-ctl -l sample -n '__engine_ctl_verb "run"' -x -d 'Note the call stack once in so many bytes, 524288 by default; 1: always, 0: never.'
complete -c engine-ctl -l at-once -n '__engine_ctl_verb "run"' -d 'Attach to the daemon before the program begins, so that a short one is seen.'
complete -c engine-ctl -n '__engine_ctl_at "" 0' -a call -d 'Call any method with JSON params and print its result as JSON.'
complete -c engine-ctl -n '__engine_ctl_at "call" 0' -a 'core.hello core.ping core.info core.discover core.shutdown core.reload client.attach client.detach client.resumed client.list client.get clock.get clock.pause clock.resume clock.scale clock.checkpoint clock.rollback clock.step.create clock.step.rate clock.step.advance clock.group.join clock.group.leave clock.group.get timer.arm timer.cancel timer.list event.register event.list event.stats event.publish event.subscribe event.unsubscribe event.port.open event.port.close event.reader.open event.reader.accept event.reader.sync event.reader.close resource.mount resource.alias resource.stats resource.define resource.undefine resource.load resource.unload resource.request resource.list resource.get resource.pin resource.evict resource.reload resource.trace memory.stats memory.report breaker.get breaker.trip breaker.reset breaker.policy breaker.rehearse breaker.trace breaker.history breaker.samples breaker.declare breaker.reserve breaker.release config.get config.set config.reload log.level log.tail log.unsubscribe telemetry.get telemetry.subscribe telemetry.unsubscribe telemetry.history'
