// NewReno in ns-3 with the settings of hw-model's experiments: an external reference.
//
// Hosts send to one host over a switch, which is a router here. The delay of a cable is a quarter of the round-trip
// time. A frame of a full segment has 1000 bytes: 946 of payload, 12 of timestamps, 20 of TCP, 20 of IPv4, 2 of PPP.
//
//   new-reno --mode=single --seconds=S --drops=FILE   one flow; FILE has lines "SEGMENT TIMES"
//   new-reno --mode=many --seconds=S --spread=S --run=N   2 hosts with 100 flows each
//
// Prints CSV. "single": rows "loss,NANOSECONDS,KIND,SEGMENT,SSTHRESH" and "cwnd,NANOSECONDS,SEGMENTS"; "many": rows
// "flow,BITS_PER_SECOND,RETRANSMISSIONS".

#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

constexpr uint32_t kPayload = 946;
constexpr uint32_t kFrame = 1000;

// Drops the first transmissions of given segments, at the receiver's card.
class DropsBySegment : public ErrorModel {
  public:
    std::map<uint32_t, uint32_t> lost;

  private:
    bool DoCorrupt(Ptr<Packet> packet) override {
        Ptr<Packet> copy = packet->Copy();
        PppHeader ppp;
        Ipv4Header ip;
        TcpHeader tcp;
        copy->RemoveHeader(ppp);
        copy->RemoveHeader(ip);
        copy->RemoveHeader(tcp);
        if (copy->GetSize() == 0) {
            return false;
        }
        // The SYN has sequence number 0.
        auto found = lost.find((tcp.GetSequenceNumber().GetValue() - 1) / kPayload);
        if (found == lost.end() || found->second == 0) {
            return false;
        }
        found->second -= 1;
        return true;
    }
    void DoReset() override {}
};

uint32_t ssthresh = 0;
SequenceNumber32 first_unacknowledged(0);

void OnSsthresh(uint32_t, uint32_t now) {
    ssthresh = now;
}

void OnAck(SequenceNumber32, SequenceNumber32 now) {
    first_unacknowledged = now;
}

void OnState(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now) {
    if (now != TcpSocketState::CA_RECOVERY && now != TcpSocketState::CA_LOSS) {
        return;
    }
    const char* kind = now == TcpSocketState::CA_LOSS ? "timeout" : "fast_retransmit";
    // The trace of the threshold may come after that of the state. So it is read at the end of this simulated time.
    const int64_t time = Simulator::Now().GetNanoSeconds();
    const uint32_t segment = (first_unacknowledged.GetValue() - 1) / kPayload;
    Simulator::ScheduleNow([=] {
        std::printf("loss,%ld,%s,%u,%.3f\n", long(time), kind, segment, double(ssthresh) / kPayload);
    });
}

void OnCwnd(uint32_t, uint32_t now) {
    std::printf("cwnd,%ld,%.3f\n", long(Simulator::Now().GetNanoSeconds()), double(now) / kPayload);
}

std::vector<uint64_t> retransmissions;
std::vector<uint32_t> highest;

void OnTx(uint32_t flow, Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>) {
    if (packet->GetSize() == 0) {
        return;
    }
    const uint32_t sequence = header.GetSequenceNumber().GetValue();
    if (sequence < highest[flow]) {
        retransmissions[flow] += 1;
    } else {
        highest[flow] = sequence + 1;
    }
}

void Watch(Ptr<BulkSendApplication> application, uint32_t flow, bool everything) {
    Ptr<Socket> socket = application->GetSocket();
    socket->TraceConnectWithoutContext("Tx", MakeBoundCallback(&OnTx, flow));
    if (!everything) {
        return;
    }
    socket->TraceConnectWithoutContext("SlowStartThreshold", MakeCallback(&OnSsthresh));
    socket->TraceConnectWithoutContext("CongState", MakeCallback(&OnState));
    socket->TraceConnectWithoutContext("CongestionWindow", MakeCallback(&OnCwnd));
    socket->TraceConnectWithoutContext("HighestRxAck", MakeCallback(&OnAck));
}

}  // namespace

int main(int argc, char** argv) {
    std::string mode = "single";
    std::string drops;
    double seconds = 1;
    double spread = 0;
    uint32_t run = 1;
    CommandLine command;
    command.AddValue("mode", "single or many", mode);
    command.AddValue("seconds", "simulated seconds", seconds);
    command.AddValue("spread", "flows start within this many seconds", spread);
    command.AddValue("drops", "file with lines SEGMENT TIMES", drops);
    command.AddValue("run", "number of the run, decides all random numbers", run);
    command.Parse(argc, argv);
    RngSeedManager::SetRun(run);

    const bool single = mode == "single";
    const uint32_t hosts = single ? 1 : 2;
    const uint32_t flows = single ? 1 : 100;

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpNewReno"));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", StringValue("ns3::TcpClassicRecovery"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kPayload));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(4));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(128 * kPayload));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(128 * kPayload));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));

    NodeContainer senders(hosts);
    NodeContainer router(1);
    NodeContainer receiver(1);
    InternetStackHelper stack;
    stack.Install(senders);
    stack.Install(router);
    stack.Install(receiver);

    PointToPointHelper cable;
    cable.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    cable.SetChannelAttribute("Delay", TimeValue(NanoSeconds(2500)));
    Ipv4AddressHelper addresses;
    TrafficControlHelper control;
    cable.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000000p"));
    for (uint32_t host = 0; host < hosts; ++host) {
        NetDeviceContainer devices = cable.Install(senders.Get(host), router.Get(0));
        addresses.SetBase(("10.1." + std::to_string(host) + ".0").c_str(), "255.255.255.0");
        addresses.Assign(devices);
        control.Uninstall(devices);
    }
    cable.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("5500000B"));
    NetDeviceContainer devices = cable.Install(router.Get(0), receiver.Get(0));
    addresses.SetBase("10.2.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    control.Uninstall(devices);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    if (!drops.empty()) {
        Ptr<DropsBySegment> model = CreateObject<DropsBySegment>();
        std::ifstream file(drops);
        uint32_t segment = 0;
        uint32_t times = 0;
        while (file >> segment >> times) {
            model->lost[segment] = times;
        }
        devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(model));
    }

    retransmissions.assign(hosts * flows, 0);
    highest.assign(hosts * flows, 0);
    Ptr<UniformRandomVariable> starts = CreateObject<UniformRandomVariable>();
    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t number = 0; number < hosts * flows; ++number) {
        const uint16_t port = 1000 + number;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        ApplicationContainer sinking = sink.Install(receiver.Get(0));
        sinks.push_back(DynamicCast<PacketSink>(sinking.Get(0)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), port));
        bulk.SetAttribute("SendSize", UintegerValue(kPayload));
        ApplicationContainer sending = bulk.Install(senders.Get(number / flows));
        const Time start = Seconds(spread > 0 ? starts->GetValue(0, spread) : 0);
        sending.Start(start);
        Ptr<BulkSendApplication> application = DynamicCast<BulkSendApplication>(sending.Get(0));
        Simulator::Schedule(start + NanoSeconds(1), &Watch, application, number, single);
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    for (uint32_t number = 0; !single && number < sinks.size(); ++number) {
        // Count the bytes of frames, as hw-model does.
        const double bits = 8.0 * double(sinks[number]->GetTotalRx()) / kPayload * kFrame;
        std::printf("flow,%.0f,%lu\n", bits / seconds, (unsigned long)retransmissions[number]);
    }
    Simulator::Destroy();
    return 0;
}
