exec 3<>/dev/tcp/127.0.0.1/1 || echo refused; echo x > /dev/udp/127.0.0.1/9 && echo sent; getent hosts localhost | grep -c localhost
